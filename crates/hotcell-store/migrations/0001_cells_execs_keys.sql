-- Cells, the index of their execs, and idempotency keys. Times are milliseconds since the epoch.
-- A record's JSON is its truth; the columns beside it exist for queries alone.

CREATE TABLE cell (
    id TEXT NOT NULL PRIMARY KEY,
    alias TEXT,
    created_at INTEGER NOT NULL,
    ended_at INTEGER,
    spec TEXT NOT NULL,
    isolation TEXT,
    indexed_bytes INTEGER NOT NULL DEFAULT 0
) STRICT;

-- An alias is free again as soon as its cell has ended.
CREATE UNIQUE INDEX cell_alias ON cell (alias) WHERE alias IS NOT NULL AND ended_at IS NULL;
CREATE INDEX cell_newest ON cell (created_at);

-- place: the order of arrival, which tells apart execs of the same millisecond.
CREATE TABLE exec (
    place INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    cell TEXT NOT NULL REFERENCES cell (id) ON DELETE CASCADE,
    queued_at INTEGER NOT NULL,
    ended INTEGER NOT NULL,
    record TEXT NOT NULL
) STRICT;

CREATE INDEX exec_newest ON exec (queued_at, place);
CREATE INDEX exec_of_cell ON exec (cell, queued_at, place);
-- Few are live among many that have ended, and those are asked for most. So few that they are
-- sorted when those of every cell are asked for.
CREATE INDEX exec_live ON exec (cell) WHERE ended = 0;

-- cell: the cell that a run's key belongs to; empty for the key of a spawn.
CREATE TABLE claimed_key (
    cell TEXT NOT NULL,
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    fingerprint INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    PRIMARY KEY (cell, name)
) STRICT, WITHOUT ROWID;

CREATE INDEX claimed_key_expiry ON claimed_key (expires_at);

CREATE TABLE setting (
    name TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
