-- Store what somebody wrote, and find the error that it is about. A repeat is stored already. A project that is being
-- deleted gets no more rows: the caller holds its gate. Returns whether the project takes it.
with clock as (select service_seconds() as now), open as (
    select p.project_id from projects p
    where p.project_id = %(project_id)s and p.id = %(project_id)s and p.status = 'active'
), stored as (
    insert into feedback_reports (project_id, received_at, id, sent_key, source, message, name, email, url, user_id,
        release, environment, adjusted, public, event_key, error_id, case_id, error_user)
    select o.project_id, clock.now, %(id)s, %(sent_key)s, %(source)s, %(message)s, %(name)s, %(email)s, %(url)s,
        %(user_id)s, %(release)s, %(environment)s, %(adjusted)s::jsonb, %(public)s, %(event_key)s, e.error_id,
        e.case_id, e.user_id
    from clock cross join open o
    left join lateral error_of_key(project => o.project_id, sent_id => %(event_key)s) e on true
    on conflict (project_id, sent_key) do nothing
)
select exists (select from open)
