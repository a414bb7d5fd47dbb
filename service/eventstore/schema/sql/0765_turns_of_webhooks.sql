-- compatible: yes
-- When a webhook was last tried, so that places go round by least recently tried.
alter table webhook_standings
    add column tried_ms bigint,  -- when its last attempt ended; null: never
    add column cut boolean not null default false;  -- that attempt was cut short, and the next one is patient
