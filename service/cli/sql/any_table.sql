-- Whether a database has tables at all.
select exists (select from pg_tables where schemaname = current_schema())
