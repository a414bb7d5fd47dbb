-- How many errors of a case came in a period, in an environment and of a release or none, up to a thousand.
select count(*) from (
    select from log_events
    where project_id = %(project_id)s and case_id = %(case_id)s
        and received_at >= %(since)s and received_at < %(until)s
        and level in ('error', 'fatal') and environment = %(environment)s
        and (release is null or release = %(release)s)
    limit 1000) e
