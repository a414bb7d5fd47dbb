-- Of which releases, or none, errors of a case came in a period and in an environment, and how many of each: among so
-- many of them as `looked` says, without those of the releases in `others`, also of people who were erased. Those by
-- the public DSN count where they are accepted. What the connected provider counted stands apart, and the greater of
-- the two is told: of the minute in which the period begins one error, if its last one came in it.
select e.release, greatest(sum(e.own), sum(e.provided))::bigint from (
    (select l.release, 1 as own, 0 as provided from log_events l
    where l.project_id = %(project_id)s and l.case_id = %(case_id)s
        and l.received_at >= %(since)s and l.received_at < %(until)s
        and l.level in ('error', 'fatal') and l.environment = %(environment)s
        and (l.release is null or l.release <> all (%(others)s::text[]))
        and (not l.public or accepts_public(project => %(project_id)s))
    limit %(looked)s)
    union all
    (select r.release, 1, 0 from erased_records r
    where r.project_id = %(project_id)s and r.case_id = %(case_id)s
        and r.received_at >= %(since)s and r.received_at < %(until)s
        and r.level in ('error', 'fatal') and r.environment = %(environment)s
        and (r.release is null or r.release <> all (%(others)s::text[]))
        and (not r.public or accepts_public(project => %(project_id)s))
    limit %(looked)s)
    union all
    (select nullif(c.release, ''), 0, sum(case when c.minute >= %(since)s then c.errors else 1 end)
    from provider_counts c
    where c.project_id = %(project_id)s and c.case_id = %(case_id)s
        and c.last_at >= %(since)s and c.minute >= %(since)s - 60 and c.minute < %(until)s
        and c.environment = %(environment)s and (c.release = '' or c.release <> all (%(others)s::text[]))
    group by c.release
    limit %(looked)s)
    limit %(looked)s) e
group by e.release
