-- Delete what is counted by name of the oldest day of a project, if it is before a time; returns how many days went.
with gone as (
    delete from event_days d
    where d.project_id = %(project_id)s and d.day = (
        select min(o.day) from event_days o where o.project_id = %(project_id)s and o.day < %(until)s)
    returning d.day
), names as (
    delete from event_name_days n using gone g where n.project_id = %(project_id)s and n.day = g.day
), keys as (
    delete from event_key_days k using gone g where k.project_id = %(project_id)s and k.day = g.day
)
select count(*) from gone
