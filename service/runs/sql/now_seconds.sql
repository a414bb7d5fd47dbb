-- The moment, in whole epoch seconds.
select service_seconds()
