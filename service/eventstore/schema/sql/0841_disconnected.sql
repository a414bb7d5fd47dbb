-- compatible: yes
-- When an owner disconnected the project from its provider (G-182), in epoch seconds.
alter table provider_connections add column ended_at bigint;
