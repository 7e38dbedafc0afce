-- The first schema. Tables and columns of the questline journal (schema 4) keep their names and meanings; the rest is
-- ours. Triggers are of one level and keep what is derived: unmet, lanes.running, bucket heads and closed bits, counts.
-- What we insert arrives complete, so the insert trigger works only for rows of foreign writers (bucket IS NULL).

CREATE TABLE quests (
  id TEXT PRIMARY KEY,
  project TEXT NOT NULL,
  role TEXT NOT NULL,
  name TEXT NOT NULL,
  task TEXT NOT NULL,
  context TEXT,
  state TEXT NOT NULL CONSTRAINT known_state
    CHECK (state IN ('queued','running','interrupted','blocked','done','failed','cancelled')),
  attempts INTEGER NOT NULL DEFAULT 0,
  max_attempts INTEGER NOT NULL DEFAULT 1,
  backoff_base_ms INTEGER NOT NULL DEFAULT 30000,
  priority INTEGER NOT NULL DEFAULT 0,
  scheduled_at INTEGER NOT NULL DEFAULT 0,
  retry_at INTEGER,
  dedupe_key TEXT,
  chain_meta TEXT,
  retain_until_consumed INTEGER NOT NULL DEFAULT 0,
  consumed_at INTEGER,
  lease_gen INTEGER NOT NULL DEFAULT 0,
  lease_expires_at INTEGER,
  heartbeat_at INTEGER,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  started_at INTEGER,
  finished_at INTEGER,
  agent_run_id TEXT,
  owner_session TEXT,
  result TEXT,
  error TEXT,
  failure_kind TEXT CONSTRAINT known_failure_kind
    CHECK (failure_kind IS NULL OR failure_kind IN ('execution','dependency','interrupted')),
  failed_dependency_id TEXT,
  group_id TEXT,
  group_step TEXT,
  recurrence_id TEXT,
  occurrence_at INTEGER,
  -- Ours from here on; every column has a default, since foreign INSERTs do not name them.
  class TEXT,
  lane TEXT,
  lane_slot INTEGER,
  external INTEGER NOT NULL DEFAULT 0,
  own INTEGER NOT NULL DEFAULT 0,            -- 1: held by the daemon that holds this store's lock
  refunds INTEGER NOT NULL DEFAULT 0,
  interruptions INTEGER NOT NULL DEFAULT 0,
  cancel_requested_at INTEGER,
  unmet INTEGER NOT NULL DEFAULT 0,          -- dependencies that are not done
  waiting INTEGER NOT NULL DEFAULT 0,        -- 1: a time gate may hold it; promoted when due
  bucket INTEGER,
  submitter_uid INTEGER,
  submitter_path TEXT,
  parent_id TEXT,
  depth INTEGER NOT NULL DEFAULT 0,
  question TEXT,
  choices TEXT,                              -- JSON array
  reason TEXT,
  park_key TEXT,
  timeout_ms INTEGER,
  model TEXT,
  verify TEXT,                               -- JSON array
  env_names TEXT,                            -- JSON array of names, never values
  CONSTRAINT lease_iff_running CHECK ((state = 'running') = (lease_expires_at IS NOT NULL)),
  CONSTRAINT slot_only_running CHECK (lane_slot IS NULL OR state = 'running'),
  CONSTRAINT own_only_running CHECK (own = 0 OR state = 'running'),
  CONSTRAINT cancel_only_running CHECK (cancel_requested_at IS NULL OR state IN ('running','cancelled')),
  CONSTRAINT finished_iff_final CHECK ((state IN ('done','failed','cancelled')) = (finished_at IS NOT NULL)),
  CONSTRAINT kind_iff_failed CHECK (state <> 'failed' OR failure_kind IS NOT NULL),
  CONSTRAINT counters CHECK (attempts >= refunds AND refunds >= 0 AND interruptions >= 0 AND unmet >= 0)
);
CREATE INDEX quests_project_state_created ON quests(project, state, created_at);
-- The journal's quests_claim_order(project, state, priority DESC, created_at) is left out: buckets make it superfluous,
-- it costs two pages a commit, and a program that wants it adds what it misses.
CREATE INDEX quests_project_group ON quests(project, group_id, created_at);
CREATE UNIQUE INDEX quests_dedupe_active ON quests(project, dedupe_key)
  WHERE dedupe_key IS NOT NULL AND state IN ('queued','running','interrupted','blocked');
CREATE UNIQUE INDEX quests_recurrence_occurrence_unique ON quests(recurrence_id, occurrence_at)
  WHERE recurrence_id IS NOT NULL AND occurrence_at IS NOT NULL;
CREATE INDEX quests_project_created ON quests(project, created_at);
CREATE INDEX quests_ready ON quests(bucket, priority DESC, created_at)
  WHERE state IN ('queued','interrupted') AND unmet = 0 AND waiting = 0;
CREATE INDEX quests_due ON quests(max(scheduled_at, ifnull(retry_at, 0)))
  WHERE state IN ('queued','interrupted') AND waiting = 1;
CREATE INDEX quests_running ON quests(own, lease_expires_at) WHERE state = 'running';
CREATE UNIQUE INDEX quests_lane_slot ON quests(project, lane, lane_slot)
  WHERE state = 'running' AND lane IS NOT NULL AND lane_slot IS NOT NULL;

CREATE TABLE quest_events (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  quest_id TEXT NOT NULL REFERENCES quests(id) ON DELETE CASCADE,
  event TEXT NOT NULL,
  at INTEGER NOT NULL,
  data TEXT NOT NULL DEFAULT '{}'
);
CREATE INDEX quest_events_quest_seq ON quest_events(quest_id, seq);

CREATE TABLE quest_deps (
  quest_id TEXT NOT NULL REFERENCES quests(id) ON DELETE CASCADE,
  depends_on TEXT NOT NULL,
  PRIMARY KEY (quest_id, depends_on)
);
CREATE INDEX quest_deps_reverse ON quest_deps(depends_on);

CREATE TABLE scheduler_leases (
  project TEXT PRIMARY KEY,
  owner TEXT NOT NULL,
  expires_at INTEGER NOT NULL
);

CREATE TABLE quest_runs (
  quest_id TEXT NOT NULL REFERENCES quests(id) ON DELETE CASCADE,
  attempt INTEGER NOT NULL,
  owner_session TEXT NOT NULL,
  lease_gen INTEGER NOT NULL,
  agent_run_id TEXT,
  model TEXT,
  provider TEXT,
  tier TEXT,
  turns INTEGER NOT NULL DEFAULT 0,
  tokens INTEGER NOT NULL DEFAULT 0,
  cost_usd REAL NOT NULL DEFAULT 0,
  last_activity TEXT,
  started_at INTEGER NOT NULL,
  finished_at INTEGER,
  outcome TEXT CONSTRAINT known_outcome
    CHECK (outcome IS NULL OR outcome IN ('done','failed','interrupted','cancelled')),
  error TEXT,
  project TEXT,
  run_number INTEGER,
  class TEXT,
  agent TEXT,
  summary TEXT,
  commit_id TEXT,
  pid INTEGER,
  pid_started INTEGER,                       -- clock ticks since boot, /proc/PID/stat field 22
  boot_id TEXT,
  cgroup TEXT,
  unit TEXT,
  exit_code INTEGER,
  exit_signal INTEGER,
  kill_reason TEXT,
  last_output_at INTEGER,
  session_id TEXT,
  usage TEXT,                                -- JSON; NULL: unknown, where turns, tokens, cost_usd then mean nothing
  tokens_input INTEGER,
  tokens_output INTEGER,
  cli_version TEXT,
  peak_memory_bytes INTEGER,
  cpu_ms INTEGER,
  verdict TEXT,                              -- JSON: what the agent itself reported, counts when its process has ended
  PRIMARY KEY (quest_id, attempt),
  CONSTRAINT class_iff_outcome CHECK (class IS NULL OR outcome IS NOT NULL),
  CONSTRAINT outcome_iff_finished CHECK ((outcome IS NULL) = (finished_at IS NULL))
);
CREATE UNIQUE INDEX quest_runs_number ON quest_runs(project, run_number) WHERE run_number IS NOT NULL;
CREATE INDEX quest_runs_open ON quest_runs(project, quest_id) WHERE finished_at IS NULL;

CREATE TABLE quest_artifacts (
  quest_id TEXT NOT NULL REFERENCES quests(id) ON DELETE CASCADE,
  attempt INTEGER NOT NULL,
  lease_gen INTEGER NOT NULL,
  kind TEXT NOT NULL,
  path TEXT NOT NULL,
  bytes INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  PRIMARY KEY (quest_id, attempt, kind)
) WITHOUT ROWID;

CREATE TABLE quest_groups (
  id TEXT PRIMARY KEY,
  project TEXT NOT NULL,
  name TEXT NOT NULL,
  kind TEXT NOT NULL CHECK (kind IN ('group','pipeline')),
  pipeline_name TEXT,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
);
CREATE INDEX quest_groups_project_created ON quest_groups(project, created_at DESC);

CREATE TABLE project_controls (
  project TEXT PRIMARY KEY,
  paused_at INTEGER,
  paused_reason TEXT,
  updated_at INTEGER NOT NULL
);

CREATE TABLE project_events (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  project TEXT NOT NULL,
  event TEXT NOT NULL,
  at INTEGER NOT NULL,
  data TEXT NOT NULL DEFAULT '{}'
);

CREATE TABLE quest_recurrences (
  id TEXT PRIMARY KEY,
  project TEXT NOT NULL,
  name TEXT NOT NULL,
  cron TEXT NOT NULL,
  timezone TEXT NOT NULL,
  role TEXT NOT NULL,
  task TEXT NOT NULL,
  context TEXT,
  priority INTEGER NOT NULL DEFAULT 0,
  max_attempts INTEGER NOT NULL DEFAULT 1,
  backoff_base_ms INTEGER NOT NULL DEFAULT 30000,
  catch_up TEXT NOT NULL DEFAULT 'one' CHECK (catch_up IN ('one','all','skip')),
  enabled INTEGER NOT NULL DEFAULT 1,
  next_run_at INTEGER NOT NULL,
  last_enqueued_at INTEGER,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
);
CREATE INDEX quest_recurrences_due ON quest_recurrences(project, enabled, next_run_at);

CREATE TABLE projects (
  key TEXT PRIMARY KEY,
  name TEXT UNIQUE,
  path TEXT,
  archived INTEGER NOT NULL DEFAULT 0,
  runs_started INTEGER NOT NULL DEFAULT 0,
  registered INTEGER NOT NULL DEFAULT 0,     -- 1: captures directories below it
  path_missing INTEGER NOT NULL DEFAULT 0,
  settings TEXT NOT NULL DEFAULT '{}',
  created_at INTEGER NOT NULL
);

CREATE TABLE lanes (
  project TEXT NOT NULL,
  lane TEXT NOT NULL,
  slots INTEGER NOT NULL DEFAULT 1 CONSTRAINT at_least_one_slot CHECK (slots >= 1),
  running INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (project, lane)
) WITHOUT ROWID;

-- One row per set of quests that the same gates hold; a claim is one look-up of the best open head. The bits of
-- closed bind every claim, those of closed_daemon only the daemon's own (questlined.core.gates has them).
CREATE TABLE buckets (
  bucket INTEGER PRIMARY KEY,
  project TEXT NOT NULL,
  lane TEXT NOT NULL DEFAULT '',
  role TEXT NOT NULL,
  external INTEGER NOT NULL DEFAULT 0,
  model TEXT NOT NULL DEFAULT '',
  closed INTEGER NOT NULL DEFAULT 0,
  closed_daemon INTEGER NOT NULL DEFAULT 0,
  head_priority INTEGER,
  head_created INTEGER,
  head_row INTEGER,
  UNIQUE (project, lane, role, external, model)
);
CREATE INDEX buckets_daemon ON buckets(head_priority DESC, head_created, head_row)
  WHERE external = 0 AND closed = 0 AND closed_daemon = 0 AND head_row IS NOT NULL;
CREATE INDEX buckets_project ON buckets(project, head_priority DESC, head_created, head_row)
  WHERE closed = 0 AND head_row IS NOT NULL;
CREATE INDEX buckets_role ON buckets(role);

CREATE TABLE counts (
  project TEXT NOT NULL,
  state TEXT NOT NULL,
  quests INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (project, state)
) WITHOUT ROWID;

-- Side effects to deliver, at least once, each with a stable delivery id. No foreign key: they outlive their quest.
CREATE TABLE outbox (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  delivery_id TEXT NOT NULL UNIQUE,
  kind TEXT NOT NULL,
  quest_id TEXT NOT NULL,
  attempt INTEGER,
  payload TEXT NOT NULL DEFAULT '{}',
  created_at INTEGER NOT NULL,
  due_at INTEGER NOT NULL,
  tries INTEGER NOT NULL DEFAULT 0,
  delivered_at INTEGER
);
CREATE INDEX outbox_due ON outbox(due_at) WHERE delivered_at IS NULL;

-- What a requestId answered: ids or an error, for a day.
CREATE TABLE requests (
  uid INTEGER NOT NULL,
  request_id TEXT NOT NULL,
  body TEXT NOT NULL,                        -- digest of method and parameters
  answer TEXT NOT NULL,                      -- JSON
  created_at INTEGER NOT NULL,
  PRIMARY KEY (uid, request_id)
) WITHOUT ROWID;
CREATE INDEX requests_created ON requests(created_at);

CREATE TRIGGER quest_inserted AFTER INSERT ON quests WHEN NEW.bucket IS NULL BEGIN
  INSERT INTO projects(key, path, created_at)
    SELECT NEW.project, NEW.project, NEW.created_at WHERE NEW.project LIKE '/%' ON CONFLICT DO NOTHING;
  INSERT INTO buckets(project, lane, role, external)
    VALUES (NEW.project, ifnull(NEW.lane, ''), NEW.role, NEW.external) ON CONFLICT DO NOTHING;
  INSERT INTO counts(project, state, quests) VALUES (NEW.project, NEW.state, 1)
    ON CONFLICT DO UPDATE SET quests = quests + 1;
  UPDATE quests SET
    bucket = (SELECT bucket FROM buckets WHERE project = NEW.project AND lane = ifnull(NEW.lane, '')
                AND role = NEW.role AND external = NEW.external AND model = ''),
    waiting = (max(NEW.scheduled_at, ifnull(NEW.retry_at, 0)) > 0)
   WHERE id = NEW.id;
END;

CREATE TRIGGER quest_head AFTER UPDATE OF state, unmet, waiting, priority, bucket ON quests
WHEN NEW.bucket IS NOT NULL AND (
  (OLD.bucket IS NOT NULL AND OLD.state IN ('queued','interrupted') AND OLD.unmet = 0 AND OLD.waiting = 0)
  OR (NEW.state IN ('queued','interrupted') AND NEW.unmet = 0 AND NEW.waiting = 0)) BEGIN
  UPDATE buckets SET (head_priority, head_created, head_row) = (
    SELECT priority, created_at, rowid FROM quests
     WHERE bucket = buckets.bucket AND state IN ('queued','interrupted') AND unmet = 0 AND waiting = 0
     ORDER BY priority DESC, created_at, rowid LIMIT 1)
   WHERE bucket IN (NEW.bucket, OLD.bucket);
END;

CREATE TRIGGER quest_lane AFTER UPDATE OF state ON quests
WHEN NEW.lane IS NOT NULL AND (OLD.state = 'running') <> (NEW.state = 'running') BEGIN
  INSERT INTO lanes(project, lane) VALUES (NEW.project, NEW.lane) ON CONFLICT DO NOTHING;
  UPDATE lanes SET running = running + (NEW.state = 'running') - (OLD.state = 'running')
   WHERE project = NEW.project AND lane = NEW.lane;
  UPDATE buckets SET closed = (closed & ~1)
      | (SELECT running >= slots FROM lanes WHERE project = NEW.project AND lane = NEW.lane)
   WHERE project = NEW.project AND lane = NEW.lane;
END;

CREATE TRIGGER quest_counted AFTER UPDATE OF state ON quests WHEN OLD.state <> NEW.state BEGIN
  UPDATE counts SET quests = quests - 1 WHERE project = NEW.project AND state = OLD.state;
  INSERT INTO counts(project, state, quests) VALUES (NEW.project, NEW.state, 1)
    ON CONFLICT DO UPDATE SET quests = quests + 1;
END;

CREATE TRIGGER quest_met AFTER UPDATE OF state ON quests WHEN (OLD.state = 'done') <> (NEW.state = 'done') BEGIN
  UPDATE quests SET unmet = unmet + (OLD.state = 'done') - (NEW.state = 'done')
   WHERE id IN (SELECT quest_id FROM quest_deps WHERE depends_on = NEW.id);
END;

CREATE TRIGGER quest_deleted AFTER DELETE ON quests BEGIN
  UPDATE counts SET quests = quests - 1 WHERE project = OLD.project AND state = OLD.state;
  UPDATE lanes SET running = running - 1
   WHERE OLD.state = 'running' AND project = OLD.project AND lane = OLD.lane;
  UPDATE buckets SET closed = (closed & ~1)
      | (SELECT running >= slots FROM lanes WHERE project = OLD.project AND lane = OLD.lane)
   WHERE OLD.state = 'running' AND OLD.lane IS NOT NULL AND project = OLD.project AND lane = OLD.lane;
  UPDATE buckets SET (head_priority, head_created, head_row) = (
    SELECT priority, created_at, rowid FROM quests
     WHERE bucket = buckets.bucket AND state IN ('queued','interrupted') AND unmet = 0 AND waiting = 0
     ORDER BY priority DESC, created_at, rowid LIMIT 1)
   WHERE bucket = OLD.bucket;
END;
