-- compatible: yes
-- Whether the installation is older than the plan `self_hosted`: then its accounts keep their telemetry as long as before.
alter table installation add column before_self_hosted boolean not null default false;
update installation set before_self_hosted = exists (select from events);
