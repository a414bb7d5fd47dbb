-- Delete some of the oldest that is known of erased records of a project; returns how many.
with gone as (
    delete from erased_records e where e.ctid = any(array(
        select d.ctid from erased_records d
        where d.project_id = %(project_id)s and d.received_at < %(until)s
        order by d.received_at, d.id limit %(most)s))
    returning 1
)
select count(*) from gone
