-- What the quests of a recurrence get besides the journal's columns, and two ways to find one: which is due next, and
-- by its name, which other programs do not keep unique.
ALTER TABLE quest_recurrences ADD COLUMN lane TEXT;
ALTER TABLE quest_recurrences ADD COLUMN timeout_ms INTEGER;
ALTER TABLE quest_recurrences ADD COLUMN external INTEGER NOT NULL DEFAULT 0;
ALTER TABLE quest_recurrences ADD COLUMN submitter_uid INTEGER;
CREATE INDEX quest_recurrences_next ON quest_recurrences(next_run_at, id) WHERE enabled = 1;
CREATE INDEX quest_recurrences_name ON quest_recurrences(project, name, id);
