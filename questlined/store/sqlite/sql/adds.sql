-- project_ensure!
-- A name keeps the path it was registered with; a directory is its own path.
INSERT INTO projects(key, name, path, created_at) VALUES (:key, :name, :path, :now) ON CONFLICT DO NOTHING;

-- project_path?
SELECT path FROM projects WHERE key = :key;

-- lane_ensure!
INSERT INTO lanes(project, lane, slots) VALUES (:project, :lane, :slots) ON CONFLICT DO NOTHING;

-- bucket_find?
SELECT bucket FROM buckets
 WHERE project = :project AND lane = :lane AND role = :role AND external = :external AND model = '';

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

-- bucket_offer!
-- A new quest becomes the head where it comes before the present one. Its row is the highest, so ties keep the old.
UPDATE buckets SET head_priority = :priority, head_created = :created, head_row = :row
 WHERE bucket = :bucket AND (head_row IS NULL OR :priority > head_priority
   OR (:priority = head_priority AND :created < head_created));

-- waiting_total?
SELECT ifnull(sum(quests), 0) FROM counts WHERE state IN ('queued', 'interrupted', 'blocked');

-- dependency?
SELECT project, state FROM quests WHERE id = :id;

-- quest_insert?
INSERT INTO quests(id, project, role, name, task, context, state, max_attempts, backoff_base_ms, priority,
  scheduled_at, created_at, updated_at, finished_at, error, failure_kind, failed_dependency_id, lane, external,
  unmet, waiting, bucket, submitter_uid, submitter_path, parent_id, depth, timeout_ms)
VALUES (:id, :project, :role, :name, :task, :context, :state, :max_attempts, :backoff_base_ms, :priority,
  :scheduled_at, :created_at, :created_at, :finished_at, :error, :failure_kind, :failed_dependency_id, :lane, :external,
  :unmet, :waiting, :bucket, :submitter_uid, :submitter_path, :parent_id, :depth, :timeout_ms)
RETURNING rowid;

-- dependency_insert!
INSERT INTO quest_deps(quest_id, depends_on) VALUES (:quest, :depends_on) ON CONFLICT DO NOTHING;

-- count_add!
INSERT INTO counts(project, state, quests) VALUES (:project, :state, :quests)
  ON CONFLICT DO UPDATE SET quests = quests + :quests;
