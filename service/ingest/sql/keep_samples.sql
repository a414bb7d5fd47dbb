-- Keep a sample of some cases of a partition, those that come after one, before it is dropped; returns the last of them
-- and how many there were. The cases are found one by one in the partition's index: it has many rows of each. A case
-- has a sample from its first error on that went, and in the end the sample is the last one: those between need not be
-- written. The error is locked: one of a person who is being erased is waited for, and passed over.
with recursive step(project_id, case_id, n) as (
    (select e.project_id, e.case_id, 1
    from {table} e
    where e.case_id is not null and (e.project_id, e.case_id) > (%(after_project)s, %(after_case)s)
    order by e.project_id, e.case_id limit 1)
    union all
    select x.project_id, x.case_id, s.n + 1
    from step s
    cross join lateral (
        select e.project_id, e.case_id from {table} e
        where e.case_id is not null and (e.project_id, e.case_id) > (s.project_id, s.case_id)
        order by e.project_id, e.case_id limit 1) x
    where s.n < %(most)s
), due as (
    select c.project_id, c.id
    from step s join case_stats c on c.project_id = s.project_id and c.id = s.case_id
    where c.sample is null or coalesce(c.own_last_seen_at, c.last_seen_at) < %(ends)s
    order by c.project_id, c.id
    for no key update of c
), kept as (
    update case_stats c set sample =
    \ir parts/sample.sql
    from due d
    cross join lateral (
        select * from {table} e
        where e.project_id = d.project_id and e.case_id = d.id
        order by e.received_at desc, e.id desc limit 1
        for key share) n
    where c.project_id = d.project_id and c.id = d.id
)
select s.project_id, s.case_id, s.n from step s order by s.n desc limit 1
