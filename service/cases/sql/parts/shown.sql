-- What a list shows of case `c` of a page, with what was merged into it.
select c.id, c.fingerprint, c.title, c.level, c.status, c.case_revision, c.unmarked or coalesce(g.unmarked, false),
    c.environment, c.release, c.event_count + coalesce(g.events, 0),
\ir people.sql
    , least(c.first_seen_at, g.first_at), greatest(c.last_seen_at, g.last_at), c.suppression_id,
    exists (
        select from leases l join claims k on k.project_id = l.project_id and k.id = l.claim_id
        where l.project_id = c.project_id and l.case_id = c.id and k.status = 'active'
            and k.lease_expires_at > (select service_seconds())), c.opened_at, c.merged_into,
    least(c.first_occurred_at, g.first_occurred_at), greatest(c.last_occurred_at, g.last_occurred_at),
    case when c.own_count is null then 'local' when c.own_count = 0 then 'provider_cloud' else 'both' end
