-- Whose each cell and exec is. Whatever was there before tenants is that of `main`.

ALTER TABLE cell ADD COLUMN tenant TEXT NOT NULL DEFAULT 'main';
ALTER TABLE exec ADD COLUMN tenant TEXT NOT NULL DEFAULT 'main';

-- Each tenant has its own names.
DROP INDEX cell_alias;
CREATE UNIQUE INDEX cell_alias ON cell (tenant, alias)
    WHERE alias IS NOT NULL AND ended_at IS NULL;
CREATE INDEX cell_of_tenant ON cell (tenant, created_at);
CREATE INDEX exec_of_tenant ON exec (tenant, queued_at, place);
CREATE INDEX exec_live_of_tenant ON exec (tenant) WHERE ended = 0;

-- The key of a spawn belongs to a tenant, written `@tenant`; no cell's id begins so.
UPDATE claimed_key SET cell = '@main' WHERE cell = '';
