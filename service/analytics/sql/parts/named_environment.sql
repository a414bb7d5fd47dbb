-- The environment that an event `e` names in its properties, null for none: the first text of these counts.
coalesce(nullif(e.properties ->> 'environment', ''), nullif(e.properties ->> '$environment', ''),
    nullif(e.properties ->> 'deployment.environment.name', ''), nullif(e.properties ->> 'deployment.environment', ''))
