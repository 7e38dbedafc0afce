-- position?
SELECT created_at, rowid FROM quests WHERE id = :id;

-- page_project*
SELECT {Quest!} FROM quests
 WHERE project = :project AND (created_at, rowid) < (:created, :row) AND (created_at, rowid) >= (:down_created, :down_row)
   AND (:states IS NULL OR state IN (SELECT value FROM json_each(:states)))
   AND (:role IS NULL OR role = :role) AND (:lane IS NULL OR lane = :lane)
   AND (:submitter IS NULL OR submitter_uid = :submitter)
 ORDER BY created_at DESC, rowid DESC LIMIT :limit;

-- down_project?
SELECT created_at, rowid FROM quests
 WHERE project = :project AND (created_at, rowid) < (:created, :row)
 ORDER BY created_at DESC, rowid DESC LIMIT 1 OFFSET :walk;

-- page_project_state*
-- `+`: or the statement is compiled at each use, for the sake of partial indexes.
SELECT {Quest!} FROM quests
 WHERE project = :project AND state = +:state
   AND (created_at, rowid) < (:created, :row) AND (created_at, rowid) >= (:down_created, :down_row)
   AND (:role IS NULL OR role = :role) AND (:lane IS NULL OR lane = :lane)
   AND (:submitter IS NULL OR submitter_uid = :submitter)
 ORDER BY created_at DESC, rowid DESC LIMIT :limit;

-- down_project_state?
SELECT created_at, rowid FROM quests
 WHERE project = :project AND state = +:state AND (created_at, rowid) < (:created, :row)
 ORDER BY created_at DESC, rowid DESC LIMIT 1 OFFSET :walk;

-- page_all*
SELECT {Quest!} FROM quests
 WHERE rowid < :row AND rowid >= :down_row
   AND (:states IS NULL OR state IN (SELECT value FROM json_each(:states)))
   AND (:role IS NULL OR role = :role) AND (:lane IS NULL OR lane = :lane)
   AND (:submitter IS NULL OR submitter_uid = :submitter)
 ORDER BY rowid DESC LIMIT :limit;

-- down_all?
-- Rows are numbered almost without gaps; a large one is leapt over.
SELECT 0, max(rowid) - :walk FROM quests WHERE rowid < :row;

-- events_project*
SELECT {Event:e} FROM quest_events e CROSS JOIN quests q ON q.id = e.quest_id
 WHERE q.project = :project AND e.seq < :before AND e.seq >= :down ORDER BY e.seq DESC LIMIT :limit;

-- down_events?
SELECT max(seq) - :walk FROM quest_events WHERE seq < :before;
