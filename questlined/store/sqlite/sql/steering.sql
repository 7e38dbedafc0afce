-- quest?
SELECT {Quest} FROM quests WHERE id = :quest;

-- cancel_waiting!
UPDATE quests SET state = 'cancelled', class = 'cancelled', finished_at = :now, updated_at = :now, retry_at = NULL,
  reason = :reason, error = :error
 WHERE id = :quest AND state IN ('queued', 'interrupted', 'blocked');

-- cancel_running!
UPDATE quests SET cancel_requested_at = :now, updated_at = :now, reason = :reason
 WHERE id = :quest AND state = 'running' AND cancel_requested_at IS NULL;

-- retry!
UPDATE quests SET state = 'queued', max_attempts = CASE WHEN max_attempts = 0 THEN 0 ELSE max(max_attempts, attempts + 1) END,
  interruptions = 0, retry_at = NULL, waiting = (scheduled_at > :now), finished_at = NULL, updated_at = :now,
  result = NULL, error = NULL, class = NULL, failure_kind = NULL, failed_dependency_id = NULL, owner_session = NULL,
  cancel_requested_at = NULL, question = NULL, choices = NULL, reason = NULL
 WHERE id = :quest AND state IN ('failed', 'cancelled', 'interrupted', 'blocked');

-- block!
UPDATE quests SET state = 'blocked', class = 'blocked', retry_at = NULL, updated_at = :now,
  reason = :reason, question = :question, choices = :choices
 WHERE id = :quest AND state IN ('queued', 'interrupted');

-- edit!
UPDATE quests SET task = :task, context = :context, name = :name, priority = :priority, scheduled_at = :scheduled_at,
  timeout_ms = :timeout_ms, max_attempts = :max_attempts, lane = :lane, bucket = :bucket, waiting = :waiting,
  updated_at = :now
 WHERE id = :quest AND state IN ('queued', 'interrupted', 'blocked');

-- dead_dependency?
SELECT d.depends_on, q.state FROM quest_deps d JOIN quests q ON q.id = d.depends_on
 WHERE d.quest_id = :quest AND q.state IN ('failed', 'cancelled') LIMIT 1;

-- cascade_clear!
DELETE FROM temp.touched;

-- cascade_failed!
-- All that waits for the root, directly or not. via is the dependency each one fails by: the first that reached it.
INSERT INTO temp.touched(id, via)
WITH RECURSIVE down(id, via) AS (
  SELECT d.quest_id, d.depends_on FROM quest_deps d JOIN quests q ON q.id = d.quest_id
   WHERE d.depends_on = :root AND q.state IN ('queued', 'interrupted', 'blocked')
  UNION
  SELECT d.quest_id, d.depends_on FROM down JOIN quest_deps d ON d.depends_on = down.id
    JOIN quests q ON q.id = d.quest_id WHERE q.state IN ('queued', 'interrupted', 'blocked')
)
SELECT id, via FROM down WHERE true ON CONFLICT DO NOTHING;

-- cascade_fail!
UPDATE quests SET state = 'failed', class = NULL, failure_kind = 'dependency', finished_at = :now, updated_at = :now,
  retry_at = NULL, failed_dependency_id = t.via,
  error = 'dependency ' || t.via || ' ' || CASE WHEN t.via = :root THEN :state ELSE 'failed' END
 FROM temp.touched t WHERE quests.id = t.id;

-- cascade_fail_events!
INSERT INTO quest_events(quest_id, event, at, data)
SELECT id, 'dependency_failed', :now,
       json_object('dependsOn', via, 'depState', CASE WHEN via = :root THEN :state ELSE 'failed' END)
  FROM temp.touched;

-- revive_candidates!
-- What failed as a dependent of the root, through others that failed so.
INSERT INTO temp.touched(id, via)
WITH RECURSIVE down(id, via) AS (
  SELECT d.quest_id, d.depends_on FROM quest_deps d JOIN quests q ON q.id = d.quest_id
   WHERE d.depends_on = :root AND q.state = 'failed' AND q.failure_kind = 'dependency'
  UNION
  SELECT d.quest_id, d.depends_on FROM down JOIN quest_deps d ON d.depends_on = down.id
    JOIN quests q ON q.id = d.quest_id WHERE q.state = 'failed' AND q.failure_kind = 'dependency'
)
SELECT id, via FROM down WHERE true ON CONFLICT DO NOTHING;

-- revive_keep!
-- Not those, nor what hangs on them, that still have a dead dependency which does not come back with the root.
WITH RECURSIVE dead(id) AS (
  SELECT t.id FROM temp.touched t WHERE EXISTS (
    SELECT 1 FROM quest_deps d JOIN quests q ON q.id = d.depends_on
     WHERE d.quest_id = t.id AND q.state IN ('failed', 'cancelled')
       AND NOT EXISTS (SELECT 1 FROM temp.touched o WHERE o.id = d.depends_on))
  UNION
  SELECT t.id FROM dead JOIN quest_deps d ON d.depends_on = dead.id JOIN temp.touched t ON t.id = d.quest_id
)
DELETE FROM temp.touched WHERE id IN (SELECT id FROM dead);

-- revive!
UPDATE quests SET state = 'queued', finished_at = NULL, updated_at = :now, failure_kind = NULL, error = NULL,
  failed_dependency_id = NULL, waiting = (scheduled_at > :now)
 WHERE id IN (SELECT id FROM temp.touched);

-- revive_events!
INSERT INTO quest_events(quest_id, event, at, data)
SELECT id, 'dependency_requeued', :now, json_object('dependsOn', via) FROM temp.touched;

-- touched*
SELECT id FROM temp.touched;

-- touched_outbox!
INSERT INTO outbox(delivery_id, kind, quest_id, payload, created_at, due_at)
SELECT 'state:' || t.id || ':' || (SELECT max(seq) FROM quest_events e WHERE e.quest_id = t.id), 'state', t.id,
       json_object('state', 'failed'), :now, :now FROM temp.touched t;

-- event!
INSERT INTO quest_events(quest_id, event, at, data) VALUES (:quest, :event, :now, :data);

-- outbox!
-- Named after the quest's last event, which is of the same change: the clock may stand still or be set back.
INSERT INTO outbox(delivery_id, kind, quest_id, attempt, payload, created_at, due_at)
VALUES ('state:' || :quest || ':' || (SELECT max(seq) FROM quest_events WHERE quest_id = :quest), 'state', :quest,
  :attempt, json_object('state', :state), :now, :now);

-- request_find?
SELECT body, answer FROM requests WHERE uid = :uid AND request_id = :id;

-- request_keep!
INSERT INTO requests(uid, request_id, body, answer, created_at) VALUES (:uid, :id, :body, :answer, :now) ON CONFLICT DO NOTHING;

-- requests_forget!
DELETE FROM requests WHERE (uid, request_id) IN (
  SELECT uid, request_id FROM requests WHERE created_at < :before ORDER BY created_at LIMIT 1000);
