-- Files that are kept of ended cells, cells that were made ahead of need, and clients of cells.

-- kept: whether the files of a cell that has ended are kept.
ALTER TABLE cell ADD COLUMN kept INTEGER NOT NULL DEFAULT 0;

-- pool: what a cell that was made ahead of need can be given out as; nothing for every other cell.
ALTER TABLE cell ADD COLUMN pool TEXT;
CREATE INDEX cell_pool ON cell (tenant, pool) WHERE pool IS NOT NULL AND ended_at IS NULL;

-- Nothing brings these back when the index is lost: clients say so again.
CREATE TABLE attachment (
    cell TEXT NOT NULL REFERENCES cell (id) ON DELETE CASCADE,
    principal TEXT NOT NULL,
    client_name TEXT NOT NULL,
    session_id TEXT NOT NULL,
    attached_at INTEGER NOT NULL,
    last_seen INTEGER NOT NULL,
    PRIMARY KEY (cell, principal, client_name, session_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX attachment_seen ON attachment (last_seen);
