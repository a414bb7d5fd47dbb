-- How many blocks the idempotency records fill.
select pg_relation_size('idempotency') / current_setting('block_size')::int
