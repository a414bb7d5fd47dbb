-- compatible: yes
-- Of the errors of a case those by the public DSN (G-184). The other columns say of its errors by the server's DSN alone what
-- those without `server_` say of all of them. They are null as long as there is no error by the public DSN: until then the
-- two are the same. `server_last_seen_at` is null, too, without an error by the server's DSN, and 0 from an error by the
-- public DSN that brought the case back to the next one by the server's: what was seen before was over.
alter table case_stats add column public_count bigint not null default 0;
alter table case_stats add column server_last_seen_at bigint;
alter table case_stats add column server_unmarked boolean;
alter table case_stats add column server_environments text[];
