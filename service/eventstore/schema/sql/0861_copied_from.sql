-- compatible: yes
-- The second from which on the copy of telemetry has a table, where it was not begun with the oldest record (G-200). A
-- question that begins earlier is not answered from it.
alter table telemetry_copies add column copied_from bigint not null default 0;
