-- The moment.
select service_now()
