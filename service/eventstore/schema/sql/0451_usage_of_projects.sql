-- compatible: yes
-- A project's share of usage, as its health shows it: without this its deploys of all times were read, or everybody's of
-- the month.
create index usage_deploys_project on usage_deploys (project_id, day);
