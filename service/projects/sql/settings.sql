-- The settings of a project in force, with the revision of their latest change, its time and its author. The last three
-- are null before the first one.
select accepts_public(project => p.project_id), coalesce(s.default_level, d.default_level, 'error'),
    coalesce(s.frame_variables, false), s.required_evidence_source, s.revision, s.changed_at, s.changed_by
from projects p
left join public_dsns d on d.project_id = p.project_id and d.id = p.id
left join project_settings s on s.project_id = p.project_id
where p.project_id = %(project_id)s and p.id = %(project_id)s
