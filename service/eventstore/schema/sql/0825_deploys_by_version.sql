-- compatible: yes
-- When a release was last deployed to an environment, whatever form its name had: the version without name and build.
create index deploys_bare_version on deploys (
    project_id, environment,
    regexp_replace(version, '^(?:(.+)@)?(?:[vV](?=[0-9]))?([^+]*).*$', '\2'), recorded_at, id
);
