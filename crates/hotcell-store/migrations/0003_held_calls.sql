-- Calls that wait for a person's word, each for one request of one caller. Nothing brings them back
-- when the index is lost: the call asks anew.

CREATE TABLE held_call (
    id TEXT PRIMARY KEY NOT NULL,
    tenant TEXT NOT NULL,
    caller TEXT NOT NULL,
    digest TEXT NOT NULL,
    until INTEGER NOT NULL,
    verdict TEXT,
    used_at INTEGER,
    record TEXT NOT NULL
) STRICT;

CREATE INDEX held_call_of_caller ON held_call (tenant, caller, digest, until);
CREATE INDEX held_call_waiting ON held_call (tenant, until) WHERE verdict IS NULL;
