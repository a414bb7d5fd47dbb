-- The jobs that failed, or the one of a number if it failed.
select j.id from procrastinate_jobs j
where j.status = 'failed' and (%(id)s::bigint is null or j.id = %(id)s)
order by j.id
