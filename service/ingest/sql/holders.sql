-- Some of the projects that have rows in a partition, those after one.
with recursive step(project_id, n) as (
    (select e.project_id, 1 from {table} e where e.project_id > %(after)s order by e.project_id limit 1)
    union all
    select x.project_id, s.n + 1
    from step s
    cross join lateral (
        select e.project_id from {table} e where e.project_id > s.project_id order by e.project_id limit 1) x
    where s.n < %(most)s
)
select s.project_id from step s order by s.n
