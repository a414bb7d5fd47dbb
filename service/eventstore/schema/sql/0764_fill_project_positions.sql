-- compatible: yes
-- The positions of what was numbered before the trigger of the file before. Nobody waits for it: it takes no lock of a
-- table that anything is written to but by that trigger.
insert into project_positions (project_id, position, seq)
select e.project_id, i.position, i.seq from log_index i join events e on e.seq = i.seq
order by e.project_id, i.position
on conflict do nothing;
analyze project_positions;
