-- Of project `p`, whose evidence counts: that of the proven source, else of the verified install, else the one that a
-- proof would be read in now (G-183).
json_build_object(
    'evidence_source', coalesce(
        (select m.evidence_source from signal_maps m where m.project_id = p.project_id and m.receipt is not null),
        (select i.evidence_source from installs i where i.project_id = p.project_id and i.status = 'verified'
            and i.map_revision = coalesce(
                (select m.revision from signal_maps m where m.project_id = p.project_id), 0)),
        (select 'provider_cloud' from provider_connections c
            where c.project_id = p.project_id and c.status = 'connected' limit 1),
        'local'))
