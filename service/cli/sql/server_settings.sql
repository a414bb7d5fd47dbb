-- Some settings of the server.
select name, setting from pg_settings where name = any(%(names)s)
