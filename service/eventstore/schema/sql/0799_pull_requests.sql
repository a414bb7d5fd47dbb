-- compatible: yes
-- Pull requests as CI observed them (G-172). `state` holds the folded state as recorded. Times are epoch seconds.
create table pull_requests (
    project_id  text   collate "C" not null,
    id          text   collate "C" not null,
    revision    bigint not null,
    repository  text   not null,
    pr_number   bigint not null,
    status      text   collate "C" not null,
    verdict     text   collate "C" not null,
    run_id      text   collate "C",
    observed_at bigint not null,
    state       jsonb  not null,
    primary key (project_id, id)
);
create index pull_requests_newest on pull_requests (project_id, observed_at, id);
create index pull_requests_verdict on pull_requests (project_id, verdict, observed_at, id);
create index pull_requests_ungranted on pull_requests (project_id, observed_at, id)
    where verdict = 'ungranted' and status = 'open';
create index pull_requests_run on pull_requests (project_id, run_id, observed_at, id) where run_id is not null;
