-- project_ensure!
-- A name keeps the path it was registered with; a directory is its own path.
INSERT INTO projects(key, name, path, created_at) VALUES (:key, :name, :path, :now) ON CONFLICT DO NOTHING;

-- project_path?
SELECT path FROM projects WHERE key = :key;

-- lane_ensure!
INSERT INTO lanes(project, lane, slots) VALUES (:project, :lane, :slots) ON CONFLICT DO NOTHING;

-- bucket_find?
-- `+`: a variable that SQLite may compare with the WHERE of a partial index has it compile the statement at each use.
SELECT bucket FROM buckets
 WHERE project = :project AND lane = :lane AND role = :role AND external = +:external AND model = '';

-- bucket_open?
-- The same with its head, where its project and lane are there, too: another program's quest makes a bucket alone.
SELECT bucket, head_row IS NULL, head_priority, head_created FROM buckets
 WHERE project = :project AND lane = :lane AND role = :role AND external = +:external AND model = ''
   AND EXISTS (SELECT 1 FROM projects WHERE key = :project)
   AND (:lane = '' OR EXISTS (SELECT 1 FROM lanes WHERE project = :project AND lane = :lane));

-- bucket_make?
-- A new bucket takes over the gates that its project, lane and role have now.
INSERT INTO buckets(project, lane, role, external, closed, closed_daemon) SELECT
  :project, :lane, :role, :external,
  ifnull((SELECT running >= slots FROM lanes WHERE project = :project AND lane = :lane), 0)
    | ifnull((SELECT 2 FROM project_controls WHERE project = :project AND paused_at IS NOT NULL), 0)
    | ifnull((SELECT archived * 8 FROM projects WHERE key = :project), 0)
    | ifnull((SELECT closed & 16 FROM buckets WHERE project = :project LIMIT 1), 0),
  ifnull((SELECT closed_daemon & 1 FROM buckets WHERE role = :role LIMIT 1), 0)
    | ifnull((SELECT closed_daemon & 2 FROM buckets WHERE project = :project LIMIT 1), 0)
    | (SELECT (path IS NULL OR path_missing) * 4 FROM projects WHERE key = :project)
RETURNING bucket;

-- bucket_head!
UPDATE buckets SET head_priority = :priority, head_created = :created, head_row = :row WHERE bucket = :bucket;

-- waiting_total?
SELECT ifnull(sum(quests), 0) FROM counts WHERE state IN ('queued', 'interrupted', 'blocked');

-- dependency?
SELECT project, state FROM quests WHERE id = :id;

-- quest_insert+
INSERT INTO quests(id, project, role, name, task, context, state, max_attempts, backoff_base_ms, priority,
  scheduled_at, created_at, updated_at, finished_at, error, failure_kind, failed_dependency_id, lane, external,
  unmet, waiting, bucket, submitter_uid, submitter_path, parent_id, depth, timeout_ms, recurrence_id, occurrence_at)
VALUES (:id, :project, :role, :name, :task, :context, :state, :max_attempts, :backoff_base_ms, :priority,
  :scheduled_at, :created_at, :updated_at, :finished_at, :error, :failure_kind, :failed_dependency_id, :lane, :external,
  :unmet, :waiting, :bucket, :submitter_uid, :submitter_path, :parent_id, :depth, :timeout_ms, :recurrence_id, :occurrence_at);

-- dependency_insert+
INSERT INTO quest_deps(quest_id, depends_on) VALUES (:quest, :depends_on) ON CONFLICT DO NOTHING;

-- event_insert+
INSERT INTO quest_events(quest_id, event, at, data) VALUES (:quest, :event, :now, :data);

-- count_add!
INSERT INTO counts(project, state, quests) VALUES (:project, :state, :quests)
  ON CONFLICT DO UPDATE SET quests = quests + :quests;
