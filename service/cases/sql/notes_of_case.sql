-- How many comments and agents' runs a case has; no more are counted than it takes.
select
    (select count(*) from (
        select from case_comments n where n.project_id = %(project_id)s and n.case_id = %(case_id)s
        limit %(most_comments)s) written),
    (select count(*) from (
        select from case_runs n where n.project_id = %(project_id)s and n.case_id = %(case_id)s
        limit %(most_agent_runs)s) recorded)
