-- own_running_role?
SELECT count(*) FROM quests WHERE state = 'running' AND own = 1 AND role = :role;

-- own_running_project?
SELECT count(*) FROM quests WHERE state = 'running' AND own = 1 AND project = :project;

-- role_gate!
UPDATE buckets SET closed_daemon = (closed_daemon & ~1) | :full WHERE role = :role AND (closed_daemon & 1) <> :full;

-- project_gate!
UPDATE buckets SET closed_daemon = (closed_daemon & ~2) | (:full * 2)
 WHERE project = :project AND (closed_daemon & 2) <> :full * 2;

-- path_gate!
UPDATE buckets SET closed_daemon = (closed_daemon & ~4) | (:missing * 4) WHERE project = :project;

-- path_flag!
UPDATE projects SET path_missing = :missing WHERE key = :project;

-- pause_gate!
UPDATE buckets SET closed = (closed & ~2) | (:paused * 2) WHERE project = :project;

-- pause_project!
INSERT INTO project_controls(project, paused_at, paused_reason, updated_at) VALUES (:project, :at, :reason, :now)
  ON CONFLICT DO UPDATE SET paused_at = :at, updated_at = :now,
    paused_reason = CASE WHEN :at IS NOT NULL AND :reason = '' THEN paused_reason ELSE :reason END;

-- project_event!
INSERT INTO project_events(project, event, at, data) VALUES (:project, :event, :now, :data);

-- meta_set!
-- An empty value keeps what is there: a pause without a reason does not take the reason of an earlier one away.
INSERT INTO meta(key, value) VALUES (:key, :value)
  ON CONFLICT DO UPDATE SET value = :value WHERE :value <> '';

-- meta_clear!
DELETE FROM meta WHERE key = :key;

-- meta_get?
SELECT value FROM meta WHERE key = :key;

-- reset_daemon_gates!
UPDATE buckets SET closed_daemon = closed_daemon & 4 WHERE closed_daemon & 3;

-- roles*
SELECT DISTINCT role FROM quests WHERE state = 'running' AND own = 1;

-- running_projects*
SELECT DISTINCT project FROM quests WHERE state = 'running' AND own = 1;

-- lane_slots_default!
UPDATE lanes SET slots = 1 WHERE slots <> 1;

-- lane_slots_set!
UPDATE lanes SET slots = :slots WHERE lane = :lane;

-- lane_gates!
UPDATE buckets SET closed = (closed & ~1)
    | ifnull((SELECT running >= slots FROM lanes l WHERE l.project = buckets.project AND l.lane = buckets.lane), 0)
 WHERE lane <> '';
