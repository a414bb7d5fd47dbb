-- compatible: yes
-- The time of an event (G-193), beside that of its receipt. Null in rows from before, and of the release
-- before: it means the time of receipt.
alter table log_events add column occurred_at bigint;
alter table analytics_events add column occurred_at bigint;
alter table case_stats add column first_occurred_at bigint;
alter table case_stats add column last_occurred_at bigint;
