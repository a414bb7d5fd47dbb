-- Take deliveries of some webhooks, so many of each, for some time. The first attempts for one subject are made in the
-- order of its events: a later one waits until the earlier one was made. A fence drops all but what tells of itself.
with clock as (
    select floor(extract(epoch from (select service_now())) * 1000)::bigint as now_ms
), wanted as (
    select * from unnest(%(projects)s::text[], %(webhooks)s::text[], %(numbers)s::int[])
        w(project_id, webhook_id, number)
), chosen as (
    select c.project_id, c.webhook_id, c.position from wanted w
    join webhook_subscriptions s on s.project_id = w.project_id and s.id = w.webhook_id
    cross join lateral (
        select b.project_id, b.webhook_id, b.position, row_number() over (order by b.due_ms, b.position) as place from (
            select d.project_id, d.webhook_id, d.position, d.subject_id, d.attempts, d.due_ms
            from webhook_deliveries d
            where d.project_id = w.project_id and d.webhook_id = w.webhook_id
                and d.due_ms <= (select now_ms from clock)
                and (s.active and d.queued_at > s.since or d.event = 'project.fenced') and d.id <> all(%(busy)s::text[])
            order by d.due_ms, d.position limit 100
        ) b
        where b.attempts > 0 or not exists (
            select from webhook_deliveries e
            where e.project_id = b.project_id and e.webhook_id = b.webhook_id and e.subject_id = b.subject_id
                and e.position < b.position and e.queued_at > s.since and e.due_ms is not null and e.attempts = 0)
    ) c
    where c.place <= w.number
), taken as (
    select d.project_id, d.webhook_id, d.position from chosen c
    join webhook_deliveries d
        on d.project_id = c.project_id and d.webhook_id = c.webhook_id and d.position = c.position
    where d.due_ms <= (select now_ms from clock)
    for update of d skip locked
)
update webhook_deliveries d set epoch = d.epoch + 1, due_ms = (select now_ms from clock) + %(lease_ms)s
from taken t
where d.project_id = t.project_id and d.webhook_id = t.webhook_id and d.position = t.position
returning d.project_id, d.webhook_id, d.position, d.id, d.event, d.subject_id, d.stream_revision, d.created_at,
    d.step, d.epoch, d.body
