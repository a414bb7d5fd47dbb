-- compatible: yes
-- The tags of the first error of a case as texts `name=value`: nobody writes them later, so an index over them costs
-- nothing where errors are counted. Null: the release before made the row, or an erasure took them.
alter table case_stats add column tags text[];

create function case_tags(project text, tags text[]) returns text[]
language sql immutable parallel safe as $body$
    select array(select project || ' ' || t from unnest(tags) t)
$body$;
create index case_stats_tags on case_stats using gin (case_tags(project_id, tags)) with (fastupdate = off);
-- The code that an error came from, by the beginning of its path.
create index case_stats_path on case_stats (project_id, (left(culprit, 200) collate "C"));
