-- How many events have their position in the log; 0 before there is a log.
select coalesce(max(size), 0) from log_state
