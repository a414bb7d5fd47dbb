-- The present day, on the service's clock.
select service_today()
