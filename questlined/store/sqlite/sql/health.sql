-- page_size?
SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size();

-- quick_check?
SELECT * FROM pragma_quick_check(1);

-- stranded?
-- Waiting quests whose derived figures contradict their rows; none in a sound store.
SELECT count(*) FROM (
  SELECT 1 FROM quests q WHERE q.state IN ('queued', 'interrupted', 'blocked') AND q.unmet <> (
    SELECT count(*) FROM quest_deps d LEFT JOIN quests o ON o.id = d.depends_on
     WHERE d.quest_id = q.id AND ifnull(o.state, '') <> 'done') LIMIT 1);

-- project_paths*
-- Where the projects are that are in use.
SELECT path FROM projects WHERE path IS NOT NULL AND archived = 0 ORDER BY runs_started DESC LIMIT 200;
