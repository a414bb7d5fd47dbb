-- Erase some analytics events of a person in a partition, and keep that there was one; returns how many.
with going as (
    select array(select jsonb_array_elements_text(n.names)) as names, n.until from erasure_names n
    where n.project_id = %(project_id)s and n.id = %(id)s
), gone as (
    delete from {table} e where e.ctid = any(array(
        select d.ctid from {table} d
        where d.project_id = %(project_id)s and d.distinct_id = any((select g.names from going g)::text[])
            and d.received_at <= (select g.until from going g)
        limit %(most)s))
    returning e.id, e.received_at, e.event, e.public,
        \ir ../../analytics/sql/parts/named_environment.sql
        as environment
), kept as (
    insert into erased_records (project_id, received_at, id, event, environment, public)
    select %(project_id)s, g.received_at, g.id, g.event, left(g.environment, 160), g.public
    from gone g
), told as (
    update erasure_names n set records = n.records + (select count(*) from gone)
    where n.project_id = %(project_id)s and n.id = %(id)s
)
select count(*) from gone
