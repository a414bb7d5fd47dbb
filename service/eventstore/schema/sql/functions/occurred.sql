-- When what a record tells of happened (G-193): by the clock of its SDK, put right by when that says it was sent, if that
-- is more than a minute from the time of receipt. The time of receipt where that cannot be: in the future, more than 30
-- days back, or of a record by the public DSN a day. service/ingest/queue/times.py says the same.
create or replace function occurred(happened bigint, sent bigint, received bigint, public boolean) returns bigint
language sql immutable as $body$
    select case when happened + case when abs(received - sent) > 60 then received - sent else 0 end
            between received - case when public then 86400 else 2592000 end and received
        then happened + case when abs(received - sent) > 60 then received - sent else 0 end
        else received end
$body$;
