-- Erase some logs and errors of a person in a partition, and keep that there was one; returns how many.
with going as (
    select array(select jsonb_array_elements_text(n.names)) as names, n.until from erasure_names n
    where n.project_id = %(project_id)s and n.id = %(id)s
), gone as (
    delete from {table} e where e.ctid = any(array(
        select d.ctid from {table} d
        where d.project_id = %(project_id)s and d.user_id = any((select g.names from going g)::text[])
            and d.received_at <= (select g.until from going g)
        limit %(most)s))
    returning e.id, e.received_at, e.level, e.environment, e.release, e.case_id, e.public
), errors as (
    select g.case_id, count(*) as errors from gone g where g.case_id is not null group by g.case_id
), held as (
    select c.id from case_stats c
    where c.project_id = %(project_id)s and c.id in (select x.case_id from errors x)
    order by c.id for no key update
), counted as (
    update case_stats c set erased_errors = c.erased_errors + x.errors
    from held h join errors x on x.case_id = h.id
    where c.project_id = %(project_id)s and c.id = h.id
), kept as (
    insert into erased_records (project_id, received_at, id, level, environment, release, case_id, public)
    select %(project_id)s, g.received_at, g.id, g.level, g.environment, g.release, g.case_id, g.public
    from gone g
), told as (
    update erasure_names n set records = n.records + (select count(*) from gone)
    where n.project_id = %(project_id)s and n.id = %(id)s
)
select count(*) from gone
