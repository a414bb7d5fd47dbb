-- Delete some of the oldest rows of a project in a partition.
delete from {table} e where e.ctid = any(array(
    select d.ctid from {table} d
    where d.project_id = %(project_id)s and d.received_at >= %(after)s and d.received_at < %(until)s
    order by d.received_at, d.id limit %(most)s))
