-- Every table.
select relname from pg_class where relkind = 'r' and relnamespace = 'public'::regnamespace order by relname
