-- The newest deliveries of a webhook.
\ir parts/logged.sql
order by d.position desc limit %(limit)s
