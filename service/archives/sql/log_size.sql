-- The size of the log.
select s.size from log_state s
