-- Let a job run again, at once.
select procrastinate_retry_job_v2(%(id)s, clock_timestamp(), null, null, null)
