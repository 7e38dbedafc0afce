-- quest?
SELECT {Quest} FROM quests WHERE id = :quest;

-- matching*
SELECT id FROM quests
 WHERE id >= :prefix AND id < :end AND (:submitter IS NULL OR submitter_uid = :submitter)
 ORDER BY id LIMIT 10;

-- dependencies*
SELECT quest_id, depends_on FROM quest_deps
 WHERE quest_id IN (SELECT value FROM json_each(:quests)) ORDER BY quest_id, rowid;

-- runs*
SELECT {Run} FROM quest_runs WHERE quest_id = :quest AND attempt > :after ORDER BY attempt LIMIT :limit;

-- run?
SELECT {Run} FROM quest_runs WHERE quest_id = :quest AND attempt = :attempt;

-- run_numbered?
SELECT {Run} FROM quest_runs WHERE project = :project AND run_number = :number;

-- runs_before*
SELECT {Run} FROM quest_runs WHERE project = :project AND run_number IS NOT NULL AND finished_at IS NOT NULL
 ORDER BY run_number DESC LIMIT 5;

-- runs_open*
SELECT {Run} FROM quest_runs WHERE project = :project AND finished_at IS NULL AND quest_id <> :quest
 ORDER BY run_number LIMIT 50;

-- events_quest*
SELECT {Event} FROM quest_events WHERE quest_id = :quest AND seq < :before ORDER BY seq DESC LIMIT :limit;

-- events_all*
SELECT {Event} FROM quest_events WHERE seq < :before ORDER BY seq DESC LIMIT :limit;

-- last_event?
-- The highest number ever given, though its row may be gone by now.
SELECT seq FROM sqlite_sequence WHERE name = 'quest_events';

-- events_walked?
SELECT max(seq), count(*) FROM (SELECT seq FROM quest_events WHERE seq > :after ORDER BY seq LIMIT :walk);

-- events_between*
SELECT {Event:e} FROM quest_events e CROSS JOIN quests q ON q.id = e.quest_id
 WHERE e.seq > :after AND e.seq <= :last AND (:project IS NULL OR q.project = :project)
   AND (:submitter IS NULL OR q.submitter_uid = :submitter)
 ORDER BY e.seq;

-- told_between*
-- Another program's row may have data that is no JSON.
SELECT e.quest_id, e.event, q.project, r.attempt, iif(json_valid(e.data), e.data ->> 'class', NULL), r.run_number
  FROM quest_events e CROSS JOIN quests q ON q.id = e.quest_id
  LEFT JOIN quest_runs r ON r.quest_id = e.quest_id AND r.attempt = iif(json_valid(e.data), e.data ->> 'attempt', NULL)
 WHERE e.seq > :after AND e.seq <= :last AND e.event IN (SELECT value FROM json_each(:events))
 ORDER BY e.seq;

-- artifacts*
SELECT {Artifact} FROM quest_artifacts WHERE quest_id = :quest AND kind <> 'records' ORDER BY attempt, kind;

-- artifacts_of*
SELECT {Artifact} FROM quest_artifacts WHERE quest_id = :quest AND attempt = :attempt AND kind <> 'records' ORDER BY kind;

-- old_records*
SELECT {OldRecords} FROM quest_artifacts WHERE kind = 'records' AND created_at < :before ORDER BY created_at LIMIT 1000;

-- situation?
SELECT q.scheduled_at, q.retry_at, q.external, q.lane, q.role, q.project, p.path, b.closed, b.closed_daemon,
       (SELECT value FROM meta WHERE key = 'paused'),
       (SELECT ifnull(paused_reason, '') FROM project_controls c WHERE c.project = q.project AND paused_at IS NOT NULL),
       q.unmet
  FROM quests q LEFT JOIN projects p ON p.key = q.project LEFT JOIN buckets b ON b.bucket = q.bucket
 WHERE q.id = :quest;

-- unmet_first*
SELECT d.depends_on, ifnull(q.state, 'missing') FROM quest_deps d LEFT JOIN quests q ON q.id = d.depends_on
 WHERE d.quest_id = :quest AND ifnull(q.state, '') <> 'done' LIMIT 5;

-- lane_holders*
SELECT id FROM quests WHERE project = :project AND lane = :lane AND state = 'running' LIMIT 5;

-- own_running?
SELECT count(*) FROM quests WHERE state = 'running' AND own = 1;

-- counts_project*
SELECT state, quests FROM counts WHERE project = :project;

-- counts_all*
SELECT state, sum(quests) FROM counts GROUP BY state;

-- project?
SELECT p.key, p.name, p.path, p.archived, p.runs_started, p.registered, p.path_missing,
       (SELECT ifnull(paused_reason, '') FROM project_controls c WHERE c.project = p.key AND paused_at IS NOT NULL)
  FROM projects p WHERE p.key = :key;

-- registered_paths*
SELECT path, key FROM projects WHERE registered = 1 AND path IS NOT NULL AND archived = 0;

-- missing_paths*
SELECT key, path FROM projects WHERE path_missing = 1 AND path IS NOT NULL;

-- daemon_paused?
SELECT value FROM meta WHERE key = 'paused';

-- next_due?
SELECT min(max(scheduled_at, ifnull(retry_at, 0))) FROM quests
 WHERE state IN ('queued', 'interrupted') AND waiting = 1;

-- next_expiry?
SELECT min(lease_expires_at) FROM quests WHERE state = 'running' AND own = 0;

-- open_runs*
SELECT r.quest_id, r.attempt, r.lease_gen, r.owner_session, r.pid, r.pid_started, r.boot_id,
       r.cgroup, r.unit
  FROM quests q JOIN quest_runs r ON r.quest_id = q.id AND r.attempt = q.attempts
 WHERE q.state = 'running' AND q.own = 1;
