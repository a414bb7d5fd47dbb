-- Delete the jobs that name a scope, but for those that are at work.
delete from procrastinate_jobs where position(%(scope)s in args::text) > 0 and status <> 'doing'
