-- compatible: yes
-- The effects at providers that have begun and are not settled: what a stop names, however many grants a project had.
create index grants_started on grants (project_id, automation_id) where status in ('consumed', 'unresolved');
