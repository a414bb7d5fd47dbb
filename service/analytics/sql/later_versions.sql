-- What was deployed to an environment after a deploy, by version.
select distinct d.version from deploys d
where d.project_id = %(project_id)s and d.environment = %(environment)s
    and (d.recorded_at, d.id) > (%(deployed_at)s, %(deploy_id)s)
limit %(looked)s
