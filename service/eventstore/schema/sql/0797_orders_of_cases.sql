-- compatible: yes
-- Lists of cases by errors, by people and by the last error, and looks for the most frequent cases, read an index. An exact
-- number changes with every error, and an index over it would make each of these updates write to all indexes of the row.
-- A rank is exact below 256. Above it there are 128 ranks to a doubling, so one that has many errors keeps it for long.
-- Times are cut to the minute. `frequent_rank` has the minute below the rank, as long as this is exact, and is an order
-- that (event_count, last_seen_at) refines.
alter table case_stats
    add column errors_rank bigint generated always as (
        case when event_count < 256 then event_count
            else 256 + floor(128 * ln(event_count::float8 / 256) / ln(2::float8))::bigint end) stored,
    add column people_rank bigint generated always as (
        case when users_affected < 256 then users_affected
            else 256 + floor(128 * ln(users_affected::float8 / 256) / ln(2::float8))::bigint end) stored,
    add column last_seen_minute bigint generated always as (last_seen_at / 60) stored,
    add column frequent_rank bigint generated always as (
        case when event_count < 256 then event_count * 4294967296 + last_seen_at / 60
            else (256 + floor(128 * ln(event_count::float8 / 256) / ln(2::float8))::bigint) * 4294967296 end) stored;
create index case_stats_errors on case_stats (project_id, errors_rank, id);
create index case_stats_people on case_stats (project_id, people_rank, id);
create index case_stats_last_seen on case_stats (project_id, last_seen_minute, id);
create index case_stats_frequent on case_stats (project_id, frequent_rank);
