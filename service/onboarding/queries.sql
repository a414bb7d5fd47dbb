-- foreign_markers --
-- Those of some markers that are of another project's session.
select m.marker
from unnest(%(markers)s::text[]) m(marker)
where exists (
    select from onboarding o
    where (o.runtime_marker_sha256 = m.marker or o.ci_marker_sha256 = m.marker) and o.project_id <> %(project_id)s)

-- ci_can_record --
-- Whether CI could record a deploy in a project, by a live credential or by a binding: one row, or none (G-171).
select from credentials
where project_id = %(project_id)s and kind = %(kind)s and revoked_at is null and expires_at > %(now)s
union all
select from ci_bindings
where project_id = %(project_id)s and bindings <> '[]'
limit 1

-- whose_evidence --
-- Whose evidence counts in a project.
select (
    \include evidence
)::text
from projects p
where p.project_id = %(project_id)s and p.id = %(project_id)s

-- part evidence --
-- Of project `p`, whose evidence counts: that of the proven source, else of the verified install, else the one that a
-- proof would be read in now. Beside it the history of the plan, and its counterparts: the connected project, and
-- the receipt, if it is one of ours (G-183).
json_build_object(
    'evidence_source', coalesce(
        (select m.evidence_source from signal_maps m where m.project_id = p.project_id and m.receipt is not null),
        (select i.evidence_source from installs i where i.project_id = p.project_id and i.status = 'verified'
            and i.map_revision = coalesce(
                (select m.revision from signal_maps m where m.project_id = p.project_id), 0)),
        (select 'provider_cloud' from provider_connections c
            where c.project_id = p.project_id and c.status = 'connected' limit 1),
        'local'),
    'connected_to', (select c.provider_project_id from provider_connections c
        where c.project_id = p.project_id and c.status = 'connected'
        order by c.connected_at desc, c.id desc limit 1),
    'compared', (select json_build_object('history', h.history, 'receipt', to_jsonb(r))
        from (select coalesce(
            (select o.plan -> 'historical_evidence' from onboarding o where o.project_id = p.project_id),
            (select m.plan -> 'historical_evidence' from signal_maps m where m.project_id = p.project_id)
        ) as history) h
        left join provider_receipts r on r.project_id = p.project_id
            and r.sha256 = h.history ->> 'query_receipt_sha256'))
