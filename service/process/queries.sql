-- note_run --
-- Note when a task ran last, by the machine's clock, and how long.
insert into task_runs (task, finished_at, seconds)
values (%(task)s, clock_timestamp(), %(seconds)s)
on conflict (task) do update set finished_at = excluded.finished_at, seconds = excluded.seconds
