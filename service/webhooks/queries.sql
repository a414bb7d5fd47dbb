-- look --
-- The next webhooks in the order of their names that have something due, each found by one step through the index of
-- what is left to do. Returns also those with nothing due, so that the next look begins behind them; of each its
-- account, whether its last attempt succeeded, how many seconds ago it ended, and whether it was cut short.
with recursive left_to_do as (
    (select d.project_id, d.webhook_id, d.due_ms, 1 as number from webhook_deliveries d
    where d.due_ms is not null and (d.project_id, d.webhook_id) > (%(project_id)s, %(webhook_id)s)
    order by d.project_id, d.webhook_id, d.due_ms limit 1)
    union all
    select n.project_id, n.webhook_id, n.due_ms, l.number + 1 from left_to_do l
    cross join lateral (
        select d.project_id, d.webhook_id, d.due_ms from webhook_deliveries d
        where d.due_ms is not null and (d.project_id, d.webhook_id) > (l.project_id, l.webhook_id)
        order by d.project_id, d.webhook_id, d.due_ms limit 1
    ) n
    where l.number < %(most)s
)
select l.project_id, l.webhook_id,
    l.due_ms <= (select floor(extract(epoch from (select service_now())) * 1000)::bigint)
        and (coalesce(s.active, false) or p.status = 'fenced'),
    coalesce(paying_account(project => l.project_id, maker => p.created_by), l.project_id),
    t.last_status is not null and t.last_error is null,
    (extract(epoch from (select service_now())) - t.tried_ms / 1000.0)::float, coalesce(t.cut, false)
from left_to_do l
left join webhook_subscriptions s on s.project_id = l.project_id and s.id = l.webhook_id
left join webhook_standings t on t.project_id = l.project_id and t.id = l.webhook_id
left join projects p on p.project_id = l.project_id and p.id = l.project_id
order by l.number

-- take --
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
    d.step, d.epoch, d.body, d.held_ms is not null

-- begin --
-- Begin attempts: fix each body, and open the way to its receiver, if the claim still holds, the webhook is active and
-- its project has the status. A destination has a rule of a member who belongs to the project, too. Whoever ends one of
-- these waits for this statement, or it finds nothing (R-WEB-09).
with asked as (
    select * from unnest(%(project_id)s::text[], %(webhook_id)s::text[], %(position)s::bigint[], %(epoch)s::bigint[],
        %(body)s::text[], %(project_status)s::text[], %(membership_id)s::text[])
        a(project_id, webhook_id, position, epoch, body, project_status, membership_id)
), webhooks_standing as (
    select w.project_id, w.id, p.status from webhooks w
    join projects p on p.project_id = w.project_id and p.id = w.project_id
    where (w.project_id, w.id) in (select a.project_id, a.webhook_id from asked a) and w.status = 'active'
    for share of w, p skip locked
), destinations_standing as (
    select n.project_id, n.id, p.status, a.membership_id,
        case when n.member_id is not null and o.email_verified then o.email end as address
    from asked a
    join notification_destinations n on n.project_id = a.project_id and n.id = a.webhook_id
    join projects p on p.project_id = n.project_id and p.id = n.project_id
    join memberships m on m.project_id = n.project_id and m.id = a.membership_id
    join people o on o.project_id = m.user_id and o.id = m.user_id
    where n.status = 'active' and o.status = 'active' and coalesce(n.member_id = m.user_id, true) and exists (
        select from jsonb_to_recordset(n.rules) r(member_id text, set_at bigint)
        where r.member_id = m.user_id and r.set_at >= m.created_at)
    for share of n, p, m, o skip locked
), standing as (
    select w.project_id, w.id, w.status, null as membership_id, null as address from webhooks_standing w
    union
    select n.project_id, n.id, n.status, n.membership_id, n.address from destinations_standing n
), locked as (
    select d.project_id, d.webhook_id, d.position, a.body, s.address from asked a
    join standing s on s.project_id = a.project_id and s.id = a.webhook_id and s.status = a.project_status
        and s.membership_id is not distinct from a.membership_id
    join webhook_deliveries d
        on d.project_id = a.project_id and d.webhook_id = a.webhook_id and d.position = a.position
    where d.epoch = a.epoch and d.due_ms is not null
    order by d.project_id, d.webhook_id, d.position
    for update of d
)
update webhook_deliveries d set body = coalesce(d.body, l.body)
from locked l
join webhook_targets t on t.project_id = l.project_id and t.id = l.webhook_id
where d.project_id = l.project_id and d.webhook_id = l.webhook_id and d.position = l.position
returning d.project_id, d.webhook_id, d.position, d.body, t.url, t.secret,
    case when t.former_until > (select service_seconds()) then t.former_secret end, l.address

-- give_back --
-- Give a delivery back that was taken and not attempted, or whose attempt was cut short.
with given as (
    update webhook_deliveries d
    set due_ms = (select floor(extract(epoch from (select service_now())) * 1000)::bigint) + %(rest_ms)s
    where d.project_id = %(project_id)s and d.webhook_id = %(webhook_id)s and d.position = %(position)s
        and d.epoch = %(epoch)s and d.due_ms is not null
    returning d.project_id, d.webhook_id
)
update webhook_standings s
set cut = true, tried_ms = (select floor(extract(epoch from (select service_now())) * 1000)::bigint)
from given g
where s.project_id = g.project_id and s.id = g.webhook_id and %(cut)s

-- destination_rules --
-- The kind of a destination, whether its project shows titles, and the rules of its present members.
select n.kind, n.member_id, coalesce(s.notification_titles, true), r.rule
from notification_destinations n
cross join lateral jsonb_array_elements(n.rules) r(rule)
join memberships m on m.project_id = n.project_id and m.user_id = r.rule ->> 'member_id'
    and m.created_at <= (r.rule ->> 'set_at')::bigint
left join project_settings s on s.project_id = n.project_id
where n.project_id = %(project_id)s and n.id = %(id)s
    and coalesce(n.member_id = r.rule ->> 'member_id', true)

-- mail_address --
-- The verified address of the member to whom a destination sends mail, while they have a rule for it.
select o.email
from notification_destinations n
join memberships m on m.project_id = n.project_id and m.user_id = n.member_id
join people o on o.project_id = m.user_id and o.id = m.user_id and o.status = 'active' and o.email_verified
where n.project_id = %(project_id)s and n.id = %(id)s and exists (
    select from jsonb_to_recordset(n.rules) r(member_id text, set_at bigint)
    where r.member_id = m.user_id and r.set_at >= m.created_at)

-- take_mail --
-- Count a message of a person in the day, once, however often it is attempted. Returns 0, or when the day is full for
-- how many seconds it lasts.
with clock as (
    select (select service_seconds()) as now
), taken as (
    insert into mail_days as m (project_id, day, deliveries)
    select %(person_id)s, c.now / 86400, array[%(delivery)s::text] from clock c
    on conflict (project_id, day) do update set deliveries = case
        when excluded.deliveries <@ m.deliveries then m.deliveries else m.deliveries || excluded.deliveries end
    where excluded.deliveries <@ m.deliveries or cardinality(m.deliveries) < %(most)s
    returning m.day
)
select coalesce((select 0 from taken), (select 86400 - c.now %% 86400 from clock c))::int

-- forget_mail_days --
-- Delete counts of days that are over, so many at a time.
delete from mail_days d where d.ctid = any(array(
    select o.ctid from mail_days o where o.day < (select service_seconds()) / 86400 limit %(most)s))

-- take_turn --
-- Take the turn of an hour to tell a destination of a subject. Returns 0, or for how many seconds another has it.
with clock as (
    select (select service_seconds()) as now
), taken as (
    insert into notification_turns as t (project_id, id, subject_id, position, told_at)
    select %(project_id)s, %(id)s, %(subject_id)s, %(position)s, c.now from clock c
    on conflict (project_id, id, subject_id) do update set position = excluded.position, told_at = excluded.told_at
    where t.position = excluded.position or t.told_at <= excluded.told_at - %(seconds)s
    returning t.told_at
)
select coalesce((select 0 from taken), (
    select greatest(1, t.told_at + %(seconds)s - (select c.now from clock c))
    from notification_turns t
    where t.project_id = %(project_id)s and t.id = %(id)s and t.subject_id = %(subject_id)s), 1)::int

-- hold --
-- Hold a notification for so many seconds.
update webhook_deliveries d
set due_ms = h.until, held_ms = h.until
from (select floor(extract(epoch from (select service_now())) * 1000)::bigint + %(seconds)s * 1000::bigint as until) h
where d.project_id = %(project_id)s and d.webhook_id = %(webhook_id)s and d.position = %(position)s
    and d.epoch = %(epoch)s and d.due_ms is not null

-- merge_held --
-- Merge what else a destination holds of some occasions into a notification, and count all by event. A repeat counts
-- what was merged before as well. Of two at once, one finds itself merged, and counts nothing: both lock in one order.
with held as (
    select d.position from webhook_deliveries d
    where d.project_id = %(project_id)s and d.webhook_id = %(id)s and d.due_ms is not null and d.held_ms is not null
        and d.body is null and (d.event = any(%(events)s::text[]) or d.position = %(position)s)
    order by d.position
    for update
), merged as (
    update webhook_deliveries d set state = 'merged', due_ms = null, merged_into = %(position)s
    where d.project_id = %(project_id)s and d.webhook_id = %(id)s and d.position <> %(position)s
        and exists (select from held h where h.position = %(position)s)
        and (d.position in (select h.position from held h) or d.merged_into in (select h.position from held h))
    returning d.event
)
select a.event, count(*) from (
    select m.event from merged m
    union all
    select d.event from webhook_deliveries d
    where d.project_id = %(project_id)s and d.webhook_id = %(id)s and d.merged_into = %(position)s
        and exists (select from held h where h.position = %(position)s)
    union all
    select d.event from webhook_deliveries d join held h on h.position = d.position
    where d.project_id = %(project_id)s and d.webhook_id = %(id)s and d.position = %(position)s
) a
group by a.event order by a.event

-- rest_destination --
-- Let all that is due to a destination rest for so many seconds: its receiver has asked for that.
update webhook_deliveries d
set due_ms = greatest(d.due_ms,
    floor(extract(epoch from (select service_now())) * 1000)::bigint + %(seconds)s * 1000::bigint)
where d.project_id = %(project_id)s and d.webhook_id = %(webhook_id)s and d.due_ms is not null

-- drop --
-- End a delivery whose subject is gone: there is nothing left to tell.
update webhook_deliveries d set state = 'stopped', due_ms = null
where d.project_id = %(project_id)s and d.webhook_id = %(webhook_id)s and d.position = %(position)s
    and d.epoch = %(epoch)s and d.due_ms is not null

-- finish --
-- Note the outcomes of attempts, in their order, but of those that somebody has taken over: each delivery is due again
-- after some time, or has ended in a state. Returns for how many seconds every attempt of its webhook has failed.
with clock as (
    select floor(extract(epoch from (select service_now())) * 1000)::bigint as now_ms
), asked as (
    select * from unnest(%(project_id)s::text[], %(webhook_id)s::text[], %(position)s::bigint[], %(epoch)s::bigint[],
        %(state)s::text[], %(after_ms)s::bigint[], %(status)s::int[], %(error)s::text[]) with ordinality
        a(project_id, webhook_id, position, epoch, state, after_ms, status, error, place)
), locked as (
    select d.project_id, d.webhook_id, d.position, a.state, a.after_ms, a.status, a.error, a.place from asked a
    join webhook_deliveries d
        on d.project_id = a.project_id and d.webhook_id = a.webhook_id and d.position = a.position
    where d.epoch = a.epoch and d.due_ms is not null
    order by d.project_id, d.webhook_id, d.position
    for update of d
), done as (
    update webhook_deliveries d set attempts = d.attempts + 1, step = d.step + 1, state = l.state,
        due_ms = (select now_ms from clock) + l.after_ms, last_status = l.status, last_error = l.error
    from locked l
    where d.project_id = l.project_id and d.webhook_id = l.webhook_id and d.position = l.position
    returning d.project_id, d.webhook_id, d.position, l.status, l.error, l.place
), latest as (
    select distinct on (d.project_id, d.webhook_id) d.project_id, d.webhook_id, d.status, d.error,
        bool_or(d.error is null) over (partition by d.project_id, d.webhook_id) as succeeded
    from done d
    order by d.project_id, d.webhook_id, d.place desc
), noted as (
    insert into webhook_standings as s
        (project_id, id, stage, tried_ms, last_status, last_error, last_delivered_at, failing_since)
    select l.project_id, l.webhook_id, 'delivering', (select now_ms from clock), l.status, l.error,
        case when l.succeeded then (select now_ms / 1000 from clock) end,
        case when l.error is not null then (select now_ms / 1000 from clock) end
    from latest l
    order by l.project_id, l.webhook_id
    on conflict (project_id, id) do update set
        tried_ms = excluded.tried_ms, cut = false, last_status = excluded.last_status, last_error = excluded.last_error,
        last_delivered_at = coalesce(excluded.last_delivered_at, s.last_delivered_at),
        failing_since = case when excluded.last_error is null then null
            when excluded.last_delivered_at is not null then excluded.failing_since
            else coalesce(s.failing_since, excluded.failing_since) end
    returning s.project_id, s.id, s.failing_since
)
select d.project_id, d.webhook_id, d.position, (select now_ms / 1000 from clock) - n.failing_since
from done d join noted n on n.project_id = d.project_id and n.id = d.webhook_id

-- subscriptions --
-- What the reader has met of the webhooks of some projects.
select s.project_id, s.id, s.events, s.active, s.since
from webhook_subscriptions s where s.project_id = any(%(projects)s::text[])

-- keep_subscriptions --
-- Keep what the reader has met of webhooks, a JSON array of rows.
insert into webhook_subscriptions (project_id, id, events, active, since)
select r.project_id, r.id, r.events, r.active, r.since
from json_to_recordset(%(rows)s::json) r(project_id text, id text, events jsonb, active boolean, since bigint)
on conflict (project_id, id) do update
set events = excluded.events, active = excluded.active, since = excluded.since

-- forget_subscriptions --
-- Forget webhooks that were deleted.
delete from webhook_subscriptions s
using unnest(%(projects)s::text[], %(webhooks)s::text[]) gone(project_id, id)
where s.project_id = gone.project_id and s.id = gone.id

-- queue --
-- Queue deliveries, a JSON array of rows, each due at once. Such a webhook is delivering from then on.
with queued as (
    insert into webhook_deliveries
        (project_id, webhook_id, position, id, event, subject_id, stream_revision, created_at,
        queued_at, due_ms)
    select r.project_id, r.webhook_id, r.position, r.id, r.event, r.subject_id, r.stream_revision, r.created_at,
        r.position, (select floor(extract(epoch from (select service_now())) * 1000)::bigint)
    from json_to_recordset(%(rows)s::json) r(project_id text, webhook_id text, position bigint, id text, event text,
        subject_id text, stream_revision bigint, created_at bigint)
    on conflict do nothing
    returning project_id, webhook_id
)
insert into webhook_standings as s (project_id, id, stage)
select distinct q.project_id, q.webhook_id, 'delivering' from queued q
on conflict (project_id, id) do update set stage = excluded.stage where s.stage <> excluded.stage

-- project_events --
-- The deliverable events of a project after a position of the log, ascending, among so many of its events; and the
-- position up to which all were looked at.
with looked as (
    select p.position, p.seq from project_positions p
    where p.project_id = %(project_id)s and p.position > %(after)s
    order by p.position limit %(looked)s
)
select (
        select greatest(%(after)s::bigint,
            case when count(*) = %(looked)s then max(a.position) else (select s.size from log_state s) end)
        from looked a
    ), f.position, f.event_id, f.topic, f.stream_id, f.revision, f.at
from (select) one left join lateral (
    select l.position, e.event_id, e.topic, e.stream_id, e.revision,
        floor(extract(epoch from e.recorded_at))::bigint as at
    from looked l join events e on e.seq = l.seq
    where e.project_id = %(project_id)s and e.topic = any(%(topics)s::text[]) and e.payload is not null
    order by l.position limit %(limit)s
) f on true
order by f.position

-- settle --
-- End deliveries that a stop, a fence or a deletion has dropped, so many at a time.
with dropped as (
    select d.project_id, d.webhook_id, d.position from webhook_deliveries d
    left join webhook_subscriptions s on s.project_id = d.project_id and s.id = d.webhook_id
    where d.due_ms is not null and d.event <> 'project.fenced'
        and (s.id is null or not s.active or d.queued_at <= s.since)
    limit %(most)s
    for update of d skip locked
)
update webhook_deliveries d set state = 'stopped', due_ms = null
from dropped x
where d.project_id = x.project_id and d.webhook_id = x.webhook_id and d.position = x.position

-- forget_old --
-- Delete deliveries whose time is over, so many at a time.
delete from webhook_deliveries d where d.ctid = any(array(
    select o.ctid from webhook_deliveries o
    where o.created_at < (select service_seconds()) - %(kept)s limit %(most)s))

-- forget_deleted --
-- Delete deliveries of webhooks that were deleted, so many at a time.
delete from webhook_deliveries d where d.ctid = any(array(
    select o.ctid from webhook_targets t
    join webhook_deliveries o on o.project_id = t.project_id and o.webhook_id = t.id
    where t.url is null limit %(most)s))

-- forget_targets --
-- Delete what is left of webhooks that were deleted, once the reader of the log has met that, and no delivery is left.
with gone as (
    delete from webhook_targets t where t.url is null
    and not exists (select from webhook_subscriptions s where s.project_id = t.project_id and s.id = t.id)
    and not exists (select from webhook_deliveries d where d.project_id = t.project_id and d.webhook_id = t.id)
    returning t.project_id, t.id
)
delete from webhook_standings s using gone g where s.project_id = g.project_id and s.id = g.id

-- begin_test --
-- Begin a test of a webhook or a destination: one at a time, and so many within a minute, and none anew whose outcome
-- is known. Returns whether it stands with its project, and whether the test may begin. Whoever ends either of them
-- waits for this statement (R-WEB-09).
with webhook_standing as (
    select w.project_id, w.id from webhooks w
    join projects p on p.project_id = w.project_id and p.id = w.project_id and p.status = 'active'
    where w.project_id = %(project_id)s and w.id = %(id)s
    for share of w, p skip locked
), destination_standing as (
    select n.project_id, n.id from notification_destinations n
    join projects p on p.project_id = n.project_id and p.id = n.project_id and p.status = 'active'
    where n.project_id = %(project_id)s and n.id = %(id)s
    for share of n, p skip locked
), standing as (
    select * from webhook_standing union all select * from destination_standing
), begun as (
    insert into webhook_standings as s (project_id, id, testing_until, test_minute, tests, test_id)
    select t.project_id, t.id, (select service_seconds()) + %(longest)s, (select service_seconds()) / 60, 1,
        %(delivery)s
    from standing t
    on conflict (project_id, id) do update set
        testing_until = excluded.testing_until, test_minute = excluded.test_minute,
        tests = case when s.test_minute = excluded.test_minute then s.tests + 1 else 1 end,
        test_id = excluded.test_id, tested_at = null
    where coalesce(s.testing_until, 0) <= excluded.testing_until - %(longest)s
        and (s.test_minute is distinct from excluded.test_minute or s.tests < %(most)s)
        and (s.test_id is distinct from excluded.test_id or s.tested_at is null
            or s.tested_at <= excluded.testing_until - %(longest)s - %(kept)s)
    returning s.id
)
select exists (select from standing), exists (select from begun)

-- find_test --
-- The state of a test, if it is the latest of its webhook: whether it is under way, whether it ended a moment ago, and
-- its outcome.
select s.testing_until > (select service_seconds()),
    coalesce(s.tested_at > (select service_seconds()) - %(kept)s, false), s.test_status, s.test_error
from webhook_standings s
where s.project_id = %(project_id)s and s.id = %(id)s and s.test_id = %(delivery)s

-- end_test --
-- Note the outcome of a test. The stage of a webhook that fails is as before: its error tells. A test that has lasted
-- so long that another has begun leaves the other's place alone.
update webhook_standings s set last_status = %(status)s, last_error = %(error)s,
    testing_until = case when s.test_id = %(delivery)s then null else s.testing_until end,
    tested_at = case when s.test_id = %(delivery)s then (select service_seconds()) else s.tested_at end,
    test_status = case when s.test_id = %(delivery)s then %(status)s else s.test_status end,
    test_error = case when s.test_id = %(delivery)s then %(error)s::text else s.test_error end,
    stage = case when %(error)s::text is null then 'tested' else s.stage end,
    last_delivered_at = case when %(error)s::text is null then (select service_seconds()) else s.last_delivered_at end,
    failing_since = case when %(error)s::text is null then null
        else coalesce(s.failing_since, (select service_seconds())) end
where s.project_id = %(project_id)s and s.id = %(id)s

-- resend --
-- Queue a delivery again, with its body, if the webhook is active and its project stands, and unless the same keyed
-- request has done so. An attempt under way goes on, and its outcome is not noted.
with standing as (
    select w.project_id, w.id from webhooks w
    join projects p on p.project_id = w.project_id and p.id = w.project_id and p.status = 'active'
    where w.project_id = %(project_id)s and w.id = %(webhook_id)s and w.status = 'active'
    for share of w, p skip locked
)
update webhook_deliveries d set state = 'open', step = 0, epoch = d.epoch + 1,
    due_ms = (select floor(extract(epoch from (select service_now())) * 1000)::bigint),
    queued_at = (select c.position + 1 from checkpoints c where c.name = 'outbox'),
    asked = coalesce(%(asked)s::text, d.asked),
    asked_at = case when %(asked)s::text is null then d.asked_at else (select service_seconds()) end
from standing s
where d.project_id = s.project_id and d.webhook_id = s.id and d.id = %(id)s
    and (%(asked)s::text is null or d.asked is distinct from %(asked)s
        or d.asked_at <= (select service_seconds()) - %(kept)s)

-- events_between --
-- The deliverable events of a project between two positions of the log, from the registration of a webhook on.
select p.position, e.event_id, e.topic, e.stream_id, e.revision, floor(extract(epoch from e.recorded_at))::bigint
from project_positions p join events e on e.seq = p.seq
where p.project_id = %(project_id)s and p.position > greatest(%(after)s, (
        select r.position from events f join log_index r on r.seq = f.seq
        where f.project_id = %(project_id)s and f.stream_id = %(webhook_id)s and f.revision = 1))
    and p.position <= %(until)s and e.project_id = %(project_id)s and e.topic = any(%(topics)s::text[])
    and e.payload is not null
order by p.position

-- replay --
-- Queue deliveries, a JSON array of rows, again or for the first time, if the webhook is active and its project stands,
-- and unless the same keyed request has done so.
with standing as (
    select w.project_id, w.id from webhooks w
    join projects p on p.project_id = w.project_id and p.id = w.project_id and p.status = 'active'
    where w.project_id = %(project_id)s and w.id = %(webhook_id)s and w.status = 'active'
    for share of w, p skip locked
), clock as (
    select floor(extract(epoch from (select service_now())) * 1000)::bigint as now_ms
)
insert into webhook_deliveries as d
    (project_id, webhook_id, position, id, event, subject_id, stream_revision, created_at, queued_at, due_ms,
    asked, asked_at)
select s.project_id, s.id, r.position, r.id, r.event, r.subject_id, r.stream_revision, r.created_at,
    (select c.position + 1 from checkpoints c where c.name = 'outbox'), (select now_ms from clock),
    %(asked)s::text, case when %(asked)s::text is not null then (select now_ms / 1000 from clock) end
from standing s cross join json_to_recordset(%(rows)s::json) r(position bigint, id text, event text, subject_id text,
    stream_revision bigint, created_at bigint)
on conflict (project_id, webhook_id, position) do update
set state = 'open', step = 0, epoch = d.epoch + 1, due_ms = excluded.due_ms, queued_at = excluded.queued_at,
    asked = coalesce(excluded.asked, d.asked), asked_at = coalesce(excluded.asked_at, d.asked_at)
where excluded.asked is null or d.asked is distinct from excluded.asked
    or d.asked_at <= excluded.asked_at - %(kept)s

-- replayed --
-- The number of deliveries in a range that a keyed request has queued.
select count(*) from webhook_deliveries d
where d.project_id = %(project_id)s and d.webhook_id = %(webhook_id)s
    and d.position > %(after)s and d.position <= %(until)s and d.asked = %(asked)s

-- of_project --
-- All webhooks of a project with what lies beside them, newest first. There are few.
select row_to_json(w)::text, row_to_json(t)::text, s.stage, s.last_status, s.last_error, s.last_delivered_at
from webhooks w
join webhook_targets t on t.project_id = w.project_id and t.id = w.id
left join webhook_standings s on s.project_id = w.project_id and s.id = w.id
where w.project_id = %(project_id)s and (%(id)s::text is null or w.id = %(id)s)
order by w.created_at desc, w.id desc

-- deliveries --
-- A page of the deliveries of a webhook after a position, ascending, among so many that are looked at; and the last
-- position looked at, when there may be more. What a stop has dropped shows so at once.
with looked as (
    select d.position, d.id, d.event, d.subject_id, d.attempts, d.last_status, d.last_error, d.due_ms, d.body,
        case when d.state <> 'open' then d.state
            when s.id is null or not s.active or d.queued_at <= s.since then 'stopped'
            when d.attempts > 0 then 'failed' else 'pending' end as status
    from webhook_deliveries d
    left join webhook_subscriptions s on s.project_id = d.project_id and s.id = d.webhook_id
    where d.project_id = %(project_id)s and d.webhook_id = %(webhook_id)s and d.position > %(after)s
    order by d.position limit %(looked)s
)
select (select case when count(*) = %(looked)s then max(a.position) end from looked a),
    l.id, l.event, l.position, l.subject_id, l.status, l.attempts, l.last_status, l.last_error,
    case when l.status in ('pending', 'failed') then (l.due_ms + 999) / 1000 end,
    encode(sha256(convert_to(l.body, 'UTF8')), 'hex')
from (select) one left join lateral (
    select * from looked l where %(status)s::text is null or l.status = %(status)s order by l.position limit %(limit)s
) l on true
order by l.position

-- recent_deliveries --
-- The newest deliveries of a webhook.
\include logged
order by d.position desc limit %(limit)s

-- part logged --
-- The deliveries of a webhook as the log shows them: a stop shows so at once.
select d.id, d.event, d.position, d.subject_id,
    case when d.state <> 'open' then d.state
        when s.id is null or not s.active or d.queued_at <= s.since then 'stopped'
        when d.attempts > 0 then 'failed' else 'pending' end,
    d.attempts, d.last_status, d.last_error,
    case when d.state = 'open' and s.active and d.queued_at > s.since then (d.due_ms + 999) / 1000 end,
    encode(sha256(convert_to(d.body, 'UTF8')), 'hex')
from webhook_deliveries d
left join webhook_subscriptions s on s.project_id = d.project_id and s.id = d.webhook_id
where d.project_id = %(project_id)s and d.webhook_id = %(webhook_id)s

-- delivery --
-- One delivery of a webhook by its id.
\include logged
    and d.id = %(id)s

-- destinations_of --
-- All destinations of a project with what lies beside them, newest first, and the rules of present members for each.
-- There are few.
select row_to_json(n)::text, row_to_json(t)::text, (
        select coalesce(jsonb_agg(r.rule), '[]') from jsonb_array_elements(n.rules) r(rule)
        join memberships m on m.project_id = n.project_id and m.user_id = r.rule ->> 'member_id'
            and m.created_at <= (r.rule ->> 'set_at')::bigint
    ), s.last_status, s.last_error, s.last_delivered_at
from notification_destinations n
join webhook_targets t on t.project_id = n.project_id and t.id = n.id
left join webhook_standings s on s.project_id = n.project_id and s.id = n.id
where n.project_id = %(project_id)s and (%(id)s::text is null or n.id = %(id)s)
order by n.created_at desc, n.id desc

-- notifications --
-- A page of the notifications of a destination after a position, ascending, among so many that are looked at; and the
-- last position looked at, when there may be more. What a stop has dropped shows so at once.
with looked as (
    select d.position, d.id, d.event, d.subject_id, d.attempts, d.last_status, d.last_error, d.due_ms,
        case when d.state <> 'open' then d.state
            when s.id is null or not s.active or d.queued_at <= s.since then 'stopped'
            when d.attempts > 0 then 'failed' when d.due_ms = d.held_ms then 'held' else 'pending' end as status
    from webhook_deliveries d
    left join webhook_subscriptions s on s.project_id = d.project_id and s.id = d.webhook_id
    where d.project_id = %(project_id)s and d.webhook_id = %(webhook_id)s and d.position > %(after)s
    order by d.position limit %(looked)s
)
select (select case when count(*) = %(looked)s then max(a.position) end from looked a),
    l.id, l.event, l.position, l.subject_id, l.status, l.attempts, l.last_status, l.last_error,
    case when l.status in ('pending', 'failed', 'held') then (l.due_ms + 999) / 1000 end
from (select) one left join lateral (
    select * from looked l where %(status)s::text is null or l.status = %(status)s order by l.position limit %(limit)s
) l on true
order by l.position

-- forget_turns --
-- Delete turns whose hour is over, so many at a time.
delete from notification_turns t where t.ctid = any(array(
    select o.ctid from notification_turns o
    where o.told_at < (select service_seconds()) - 3600 limit %(most)s))
