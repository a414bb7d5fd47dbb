-- compatible: yes
-- What members do to cases: merged, assigned, looked for by words; and what they write about them.

alter table cases add column merged_into text collate "C";
alter table cases add column assignee text collate "C";
-- What was merged into a case: few, and each read of the case looks at them.
create index cases_merged on cases (project_id, merged_into) where merged_into is not null;

-- As they are shown: a merged case is out of attention, whoever asks for it is told where it went.
drop index cases_shown;
create index cases_shown on cases
    (project_id, replace(replace(status, 'overflow', 'open'), 'merged', 'ignored'), opened_at, id);

-- The words of what a case is called after. They stay as they are when errors are counted, so no update writes here.
create function case_words(project text, title text, message text, culprit text) returns text[]
language sql immutable parallel safe as $body$
    select array(
        select distinct project || ' ' || w
        from regexp_split_to_table(
            lower(left(title || ' ' || message || ' ' || coalesce(culprit, ''), 1000)), '[\s!-/:-@\[-`{-~]+') w
        where w <> '')
$body$;
create index case_stats_words on case_stats using gin (case_words(project_id, title, message, culprit))
    with (fastupdate = off);
-- Cases of onboarding proofs alone: left out wherever open cases are counted.
create index case_stats_synthetic on case_stats (project_id, id) where not unmarked;

-- When a release was last deployed to an environment, and which deploy was current there at a time.
create index deploys_release on deploys (project_id, environment, version, recorded_at, id);

create table case_comments (
    project_id   text   collate "C" not null,
    id           text   collate "C" not null,
    revision     bigint not null,
    case_id      text   collate "C" not null,
    user_id      text   collate "C" not null,
    text         text   not null,
    commented_at bigint not null,
    primary key (project_id, id)
);
create index case_comments_of_case on case_comments (project_id, case_id, commented_at, id);

create table case_runs (
    project_id  text   collate "C" not null,
    id          text   collate "C" not null,
    revision    bigint not null,
    case_id     text   collate "C" not null,
    status      text   collate "C" not null,
    summary_md  text,
    pr_url      text,
    recorded_at bigint not null,
    primary key (project_id, id)
);
create index case_runs_of_case on case_runs (project_id, case_id, recorded_at, id);
