-- Of which releases, or none, errors of a case came in a period and in an environment, and how many of each: among so
-- many of them as `looked` says, without those of the releases in `others`, also of people who were erased. Those by
-- the public DSN count where they are accepted.
select e.release, count(*) from (
    (select l.release from log_events l
    where l.project_id = %(project_id)s and l.case_id = %(case_id)s
        and l.received_at >= %(since)s and l.received_at < %(until)s
        and l.level in ('error', 'fatal') and l.environment = %(environment)s
        and (l.release is null or l.release <> all (%(others)s::text[]))
        and (not l.public or accepts_public(project => %(project_id)s))
    limit %(looked)s)
    union all
    (select r.release from erased_records r
    where r.project_id = %(project_id)s and r.case_id = %(case_id)s
        and r.received_at >= %(since)s and r.received_at < %(until)s
        and r.level in ('error', 'fatal') and r.environment = %(environment)s
        and (r.release is null or r.release <> all (%(others)s::text[]))
        and (not r.public or accepts_public(project => %(project_id)s))
    limit %(looked)s)
    limit %(looked)s) e
group by e.release
