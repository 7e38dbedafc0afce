-- recurrence?
SELECT {Recurrence} FROM quest_recurrences WHERE id = :id;

-- recurrences_named*
SELECT {Recurrence} FROM quest_recurrences WHERE project = :project AND name = :name ORDER BY id LIMIT 10;

-- recurrences_matching*
SELECT id FROM quest_recurrences WHERE id >= :prefix AND id < :beyond ORDER BY id LIMIT 10;

-- recurrences_page*
SELECT {Recurrence!} FROM quest_recurrences
 WHERE (:project IS NULL OR project = :project)
   AND (:cursor IS NULL OR (project, name, id) > (SELECT project, name, id FROM quest_recurrences WHERE id = :cursor))
 ORDER BY project, name, id LIMIT :limit;

-- recurrences_total?
SELECT count(*) FROM quest_recurrences;

-- recurrences_enabled*
SELECT id, name, cron, timezone FROM quest_recurrences WHERE enabled = 1 ORDER BY id;

-- recurrences_due*
-- Behind (:at, :id), so that those which cannot be enqueued do not hide the others. Those whose gate is closed are left.
SELECT r.next_run_at, r.id, r.name, r.cron, r.timezone FROM quest_recurrences r
 WHERE r.enabled = 1 AND r.next_run_at <= :now AND (r.next_run_at, r.id) > (:at, :id)
   AND NOT EXISTS (SELECT 1 FROM project_controls c WHERE c.project = r.project AND c.paused_at IS NOT NULL)
   AND NOT EXISTS (SELECT 1 FROM projects p WHERE p.key = r.project AND p.archived)
   AND NOT EXISTS (SELECT 1 FROM meta WHERE key = 'paused')
 ORDER BY r.next_run_at, r.id LIMIT 100;

-- recurrences_next?
SELECT min(next_run_at) FROM quest_recurrences WHERE enabled = 1 AND next_run_at > :now;

-- recurrences_ahead*
SELECT {Recurrence!} FROM quest_recurrences WHERE next_run_at > :now AND id > :after ORDER BY id LIMIT 100;

-- recurrence_gates?
SELECT (SELECT ifnull(paused_reason, '') FROM project_controls WHERE project = :project AND paused_at IS NOT NULL),
       ifnull((SELECT archived FROM projects WHERE key = :project), 0),
       (SELECT value FROM meta WHERE key = 'paused');

-- recurrence_insert!
INSERT INTO quest_recurrences(id, project, name, cron, timezone, role, task, context, priority, max_attempts,
  backoff_base_ms, catch_up, enabled, next_run_at, created_at, updated_at, lane, timeout_ms, external, submitter_uid)
VALUES (:id, :project, :name, :cron, :timezone, :role, :task, :context, :priority, :max_attempts,
  :backoff_base_ms, :catch_up, :enabled, :next_run_at, :created_at, :updated_at, :lane, :timeout_ms, :external,
  :submitter_uid);

-- recurrence_switch!
UPDATE quest_recurrences SET enabled = :enabled, updated_at = :now WHERE id = :id AND enabled <> :enabled;

-- recurrence_delete!
DELETE FROM quest_recurrences WHERE id = :id;

-- recurrence_advance!
UPDATE quest_recurrences SET next_run_at = :next, updated_at = :now,
  last_enqueued_at = CASE WHEN :enqueued THEN :now ELSE last_enqueued_at END
 WHERE id = :id;

-- recurrence_rewind!
UPDATE quest_recurrences SET next_run_at = :next, updated_at = :now WHERE id = :id;

-- occurrence?
SELECT id FROM quests WHERE recurrence_id = :id AND occurrence_at = :at;
