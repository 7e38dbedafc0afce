-- Indexes of records are deleted some time after their attempt's end: which are due is found here.
CREATE INDEX quest_artifacts_records ON quest_artifacts(created_at) WHERE kind = 'records';
