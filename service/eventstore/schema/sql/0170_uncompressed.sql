-- compatible: yes
-- What is written again and again, or once and hardly ever read, is kept as it is where it is large: to compress it
-- (pglz, the one method of every server) took more time than all the rest of writing its row. What is stored already
-- stays as it is, and is read as before.
alter table idempotency alter column body set storage external;
alter table automation_runs alter column state set storage external;
