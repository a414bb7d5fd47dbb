-- Finds the errors of reports that came before them: of the newest so many of the last `seconds`, of one project or, for
-- null, of all. Answers how many found theirs.
create or replace function settle_feedback(project text, seconds bigint, most bigint) returns bigint
language sql as $body$
    with waiting as (
        select f.project_id, f.id, f.event_key from feedback_reports f
        where f.event_key is not null and f.error_id is null and f.received_at >= service_seconds() - seconds
            and (project is null or f.project_id = project)
        order by f.received_at desc limit most
    ), found as (
        select w.project_id, w.id, e.error_id, e.case_id, e.user_id
        from waiting w cross join lateral error_of_key(project => w.project_id, sent_id => w.event_key) e
    ), settled as (
        update feedback_reports f set error_id = d.error_id, case_id = d.case_id, error_user = d.user_id
        from found d
        where f.project_id = d.project_id and f.id = d.id and f.error_id is null
        returning 1
    )
    select count(*) from settled
$body$;
