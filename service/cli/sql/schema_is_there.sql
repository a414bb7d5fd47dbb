-- Whether a database has the service's tables.
select to_regclass('events') is not null
