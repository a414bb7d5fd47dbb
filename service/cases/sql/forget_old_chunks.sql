-- Delete some of the oldest parts that nobody has named.
delete from upload_chunks c
using (
    select u.project_id, u.id from upload_chunks u
    where u.stored_at < (select service_seconds()) - %(kept)s
    order by u.stored_at limit %(most)s
    for update skip locked
) o
where c.project_id = o.project_id and c.id = o.id
