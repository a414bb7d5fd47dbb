-- compatible: yes
-- Paths of the values of a record that were changed so that it could be taken (a JSON array of strings); null: none.
alter table log_events add column adjusted jsonb;
alter table analytics_events add column adjusted jsonb;
