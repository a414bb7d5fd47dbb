-- A deploy of a project: its version, its environment and when it was recorded.
select d.version, d.environment, d.recorded_at from deploys d
where d.project_id = %(project_id)s and d.id = %(deploy_id)s
limit %(most)s
