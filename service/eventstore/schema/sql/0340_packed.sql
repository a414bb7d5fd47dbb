-- compatible: yes
-- What a large log event says beside its columns: the JSON text of `extra`, compressed (zstd). `extra` itself is then {};
-- null: it is not packed. Records with a proof marker are never packed: they are looked into. The text is compressed
-- already, so the server does not try it again.
alter table log_events add column packed bytea;
alter table log_events alter column packed set storage external;
