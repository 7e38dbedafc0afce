-- head_for_daemon?
SELECT head_row, project, lane FROM buckets
 WHERE external = 0 AND closed = 0 AND closed_daemon = 0 AND head_row IS NOT NULL
   AND NOT EXISTS (SELECT 1 FROM meta WHERE key = 'paused')
 ORDER BY head_priority DESC, head_created, head_row LIMIT 1;

-- head_for_outside?
SELECT head_row, project, lane FROM buckets
 WHERE project = :project AND closed = 0 AND head_row IS NOT NULL
   AND (:lane IS NULL OR lane = :lane) AND (:role IS NULL OR role = :role)
   AND NOT EXISTS (SELECT 1 FROM meta WHERE key = 'paused')
 ORDER BY head_priority DESC, head_created, head_row LIMIT 1;

-- head_now?
-- As for the daemon, but of one project, and past its pause (2) and the concurrency of roles and projects (1, 2). No
-- index has these: the project's buckets are looked through, since a person asks and no loop does.
SELECT head_row, project, lane FROM buckets
 WHERE project = :project AND external = 0 AND closed & ~2 = 0 AND closed_daemon & ~3 = 0 AND head_row IS NOT NULL
 ORDER BY head_priority DESC, head_created, head_row LIMIT 1;

-- place?
SELECT rowid, project, ifnull(lane, '') FROM quests WHERE id = :quest;

-- lane_slots?
SELECT slots FROM lanes WHERE project = :project AND lane = :lane;

-- lane_taken*
SELECT lane_slot FROM quests WHERE project = :project AND lane = :lane AND state = 'running' AND lane_slot IS NOT NULL;

-- claim?
-- The last line of defence: a row that is not claimable any more is not taken.
UPDATE quests SET state = 'running', attempts = attempts + 1, lease_gen = lease_gen + 1, owner_session = :owner,
  own = :own, lane_slot = :lane_slot, lease_expires_at = :now + :lease_ms, heartbeat_at = :now, started_at = :now,
  updated_at = :now, agent_run_id = NULL, finished_at = NULL, retry_at = NULL, result = NULL, error = NULL,
  class = NULL, failure_kind = NULL, failed_dependency_id = NULL, question = NULL, choices = NULL, reason = NULL,
  cancel_requested_at = NULL
 WHERE rowid = :row AND state IN ('queued', 'interrupted') AND unmet = 0
RETURNING {Quest};

-- run_number?
UPDATE projects SET runs_started = runs_started + 1 WHERE key = :project RETURNING runs_started, path;

-- run_insert?
INSERT INTO quest_runs(quest_id, attempt, owner_session, lease_gen, started_at, project, run_number, agent)
VALUES (:quest, :attempt, :owner, :generation, :now, :project, :number, :agent) RETURNING {Run};

-- run_get?
SELECT {Run} FROM quest_runs WHERE quest_id = :quest AND attempt = :attempt;

-- held?
-- The quest under this lease, nothing once another generation exists or the attempt has ended.
SELECT {Quest} FROM quests
 WHERE id = :quest AND state = 'running' AND owner_session = :owner AND lease_gen = :generation;

-- lease_extend!
UPDATE quests SET heartbeat_at = :now, lease_expires_at = max(lease_expires_at, :now + :lease_ms)
 WHERE id = :quest AND state = 'running' AND owner_session = :owner AND lease_gen = :generation;

-- extend_own!
UPDATE quests SET heartbeat_at = :now, lease_expires_at = :now + :lease_ms
 WHERE state = 'running' AND own = 1 AND owner_session = :owner;

-- quest_started?
UPDATE quests SET agent_run_id = :agent
 WHERE id = :quest AND state = 'running' AND owner_session = :owner AND lease_gen = :generation
RETURNING attempts, cancel_requested_at;

-- run_started!
UPDATE quest_runs SET pid = :pid, pid_started = :pid_started, boot_id = :boot_id, cgroup = :cgroup, unit = :unit
 WHERE quest_id = :quest AND attempt = :attempt;

-- quest_adopt?
UPDATE quests SET owner_session = :owner, heartbeat_at = :now, lease_expires_at = :now + :lease_ms
 WHERE id = :quest AND state = 'running' AND own = 1 AND attempts = :attempt AND lease_gen = :generation
RETURNING {Quest};

-- run_adopt?
UPDATE quest_runs SET owner_session = :owner WHERE quest_id = :quest AND attempt = :attempt AND finished_at IS NULL
RETURNING {Run};

-- run_verdict!
UPDATE quest_runs SET verdict = :verdict WHERE quest_id = :quest AND attempt = :attempt;

-- run_verdict_get?
SELECT verdict FROM quest_runs WHERE quest_id = :quest AND attempt = :attempt;

-- quest_settle!
-- One that was run before its time waits for it again.
UPDATE quests SET state = :state, class = :class, max_attempts = :max_attempts, refunds = :refunds,
  interruptions = :interruptions, retry_at = :retry_at, waiting = (max(scheduled_at, ifnull(:retry_at, 0)) > :now), updated_at = :now,
  finished_at = CASE WHEN :final THEN :now END, result = :result, error = :error, failure_kind = :failure_kind,
  lease_expires_at = NULL, heartbeat_at = NULL, own = 0, lane_slot = NULL,
  owner_session = CASE WHEN :final THEN owner_session END,
  cancel_requested_at = CASE WHEN :state = 'cancelled' THEN cancel_requested_at END,
  question = :question, choices = :choices, reason = :reason
 WHERE id = :quest AND state = 'running' AND owner_session = :owner AND lease_gen = :generation;

-- run_settle!
UPDATE quest_runs SET finished_at = :now, outcome = :outcome, class = :class, error = :error, summary = :summary,
  commit_id = :commit_id, exit_code = :exit_code, exit_signal = :exit_signal, kill_reason = :kill_reason,
  last_output_at = :last_output_at, peak_memory_bytes = :peak_memory_bytes, cpu_ms = :cpu_ms
 WHERE quest_id = :quest AND attempt = :attempt AND finished_at IS NULL;

-- artifacts_insert!
INSERT INTO quest_artifacts(quest_id, attempt, lease_gen, kind, path, bytes, created_at)
SELECT :quest, :attempt, :generation, value ->> 0, value ->> 1, value ->> 2, :now FROM json_each(:artifacts) WHERE true
ON CONFLICT DO UPDATE SET lease_gen = :generation, path = excluded.path, bytes = excluded.bytes, created_at = :now;

-- records_forget!
DELETE FROM quest_artifacts WHERE kind = 'records'
   AND (quest_id, attempt) IN (SELECT value ->> 0, value ->> 1 FROM json_each(:records));

-- expired*
SELECT {Quest} FROM quests WHERE state = 'running' AND own = 0 AND lease_expires_at <= :now
 ORDER BY lease_expires_at LIMIT 200;

-- held_by_daemons*
SELECT {Quest} FROM quests WHERE state = 'running' AND own = 1;

-- shift_leases!
UPDATE quests SET lease_expires_at = lease_expires_at + :delta WHERE state = 'running'
   AND ifnull(heartbeat_at, 0) NOT BETWEEN :since AND :until;

-- shift_retries!
UPDATE quests SET retry_at = retry_at + :delta
 WHERE state IN ('queued', 'interrupted') AND waiting = 1 AND retry_at IS NOT NULL
   AND updated_at NOT BETWEEN :since AND :until;

-- promote!
UPDATE quests SET waiting = 0 WHERE rowid IN (
  SELECT rowid FROM quests WHERE state IN ('queued', 'interrupted') AND waiting = 1
     AND max(scheduled_at, ifnull(retry_at, 0)) <= :now
   ORDER BY max(scheduled_at, ifnull(retry_at, 0)) LIMIT 500);
