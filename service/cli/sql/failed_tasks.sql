-- How many jobs of each task have failed.
select task_name, count(*) from procrastinate_jobs where status = 'failed' group by 1 order by 2 desc, 1
