-- Delete some of the oldest counts of a project's provider; returns how many.
with gone as (
    delete from provider_counts e where e.ctid = any(array(
        select d.ctid from provider_counts d
        where d.project_id = %(project_id)s and d.minute < %(until)s
        order by d.minute limit %(most)s))
    returning 1
)
select count(*) from gone
