-- Who is around some cases before they are merged or split: those merged into the first, and the leases of all.
select
    (select json_agg(m.id order by m.id) from cases m
        where m.project_id = %(project_id)s and m.merged_into = %(case_id)s)::text,
    (select json_agg(row_to_json(l)) from leases l
        where l.project_id = %(project_id)s and l.case_id = any(%(case_ids)s))::text
