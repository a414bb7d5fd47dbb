-- Delete deliveries whose time is over, so many at a time.
delete from webhook_deliveries d where d.ctid = any(array(
    select o.ctid from webhook_deliveries o
    where o.created_at < (select service_seconds()) - %(kept)s limit %(most)s))
