-- lock_log --
-- Lock the log for numbering. No row: another process numbers.
select size from log_state for update skip locked

-- number --
-- Number events that are not numbered yet. A later statement than the lock, so that its snapshot shows what the last
-- holder deleted.
with took as (delete from unsequenced where seq in
(select seq from unsequenced order by seq limit %s) returning seq),
placed as (insert into log_index (position, seq)
select %s + row_number() over (order by seq), seq from took returning 1) select count(*) from placed

-- grow --
-- Grow the log.
update log_state set size = size + %s

-- log_size --
-- The size of the log.
select size from log_state

-- streams_after --
-- The streams of the events after a position.
select i.position, e.project_id, e.stream_id from log_index i join events e on e.seq = i.seq
where i.position > %s order by i.position limit %s
