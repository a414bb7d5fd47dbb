-- Keep where a round goes on.
insert into sweep_turns (project_id, step, id, considered_at)
values ('', %(step)s, %(place)s, (select service_now()))
on conflict (project_id, step, id) do update set considered_at = excluded.considered_at
