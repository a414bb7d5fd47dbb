-- By how many seconds the service's clock is ahead of the machine's.
select offset_seconds from service_clock
