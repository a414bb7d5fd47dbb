-- One delivery of a webhook by its id.
\ir parts/logged.sql
    and d.id = %(id)s
