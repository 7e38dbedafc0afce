-- tables?
SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = :name;

-- any_table?
SELECT count(*) FROM sqlite_master;

-- number?
SELECT value FROM meta WHERE key = 'schema';

-- meta_make!
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;

-- meta_put!
INSERT OR REPLACE INTO meta(key, value) VALUES (:key, :value);

-- touched_make!
-- The set that a cascade works on; lives with the writer's connection only.
CREATE TEMP TABLE touched (id TEXT PRIMARY KEY, via TEXT NOT NULL) WITHOUT ROWID;
