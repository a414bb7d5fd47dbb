-- Delete some of the oldest reports of a project; returns how many.
with gone as (
    delete from feedback_reports f where f.ctid = any(array(
        select d.ctid from feedback_reports d
        where d.project_id = %(project_id)s and d.received_at < %(until)s
        order by d.received_at, d.id limit %(most)s))
    returning 1
)
select count(*) from gone
