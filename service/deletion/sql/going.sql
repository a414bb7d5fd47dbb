-- Whether a round of an erasure is at its purge.
select e.deletion_id from erasures e
where e.project_id = %(project_id)s and e.id = %(id)s and e.deletion_id = %(deletion_id)s and e.phase = 'purging'
