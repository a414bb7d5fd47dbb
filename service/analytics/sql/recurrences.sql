-- How many errors of a case came in a period, in an environment and of a release or none, up to a thousand, also of
-- people who were erased. Those by the public DSN count where they are accepted.
select count(*) from (
    (select from log_events
    where project_id = %(project_id)s and case_id = %(case_id)s
        and received_at >= %(since)s and received_at < %(until)s
        and level in ('error', 'fatal') and environment = %(environment)s
        and (release is null or release = %(release)s)
        and (not public or accepts_public(project => %(project_id)s))
    limit 1000)
    union all
    (select from erased_records
    where project_id = %(project_id)s and case_id = %(case_id)s
        and received_at >= %(since)s and received_at < %(until)s
        and level in ('error', 'fatal') and environment = %(environment)s
        and (release is null or release = %(release)s)
        and (not public or accepts_public(project => %(project_id)s))
    limit 1000)
    limit 1000) e
