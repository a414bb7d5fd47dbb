-- Erase some of what a person wrote: under one of the names, about an error of theirs, or with an address that their
-- errors have; returns how many.
with going as (
    select array(select jsonb_array_elements_text(n.names)) as names, n.until from erasure_names n
    where n.project_id = %(project_id)s and n.id = %(id)s
), addresses as (
    select array(
        select unnest(g.names) union
        select u.user_email from case_users u
        where u.project_id = %(project_id)s and u.user_id = any(g.names) and u.user_email is not null) as emails
    from going g
), gone as (
    delete from feedback_reports f where f.ctid = any(array(
        select d.ctid from (
            select f.ctid from feedback_reports f
            where f.project_id = %(project_id)s and f.user_id = any((select g.names from going g)::text[])
                and f.received_at <= (select g.until from going g)
            union
            select f.ctid from feedback_reports f
            where f.project_id = %(project_id)s and f.error_user = any((select g.names from going g)::text[])
                and f.received_at <= (select g.until from going g)
            union
            select f.ctid from feedback_reports f
            where f.project_id = %(project_id)s and f.email = any((select a.emails from addresses a)::text[])
                and f.received_at <= (select g.until from going g)) d
        limit %(most)s))
    returning 1
), told as (
    update erasure_names n set records = n.records + (select count(*) from gone)
    where n.project_id = %(project_id)s and n.id = %(id)s
)
select count(*) from gone
