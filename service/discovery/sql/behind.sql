-- How many events each reader of the log is behind.
select c.name, s.size - c.position from checkpoints c, log_state s order by c.name
