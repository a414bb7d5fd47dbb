-- compatible: yes
-- What a keyed request has done to deliveries and tests before its answer was stored: a twin does it no second time.
alter table webhook_deliveries add column asked text, add column asked_at bigint;  -- the request that queued it last
alter table webhook_standings
    add column test_id text,      -- the delivery of the latest test
    add column tested_at bigint,  -- null: that test has no outcome yet
    add column test_status integer,
    add column test_error text;
