-- Keep looks and the decisions that are new in them; returns how many decisions. One statement: its transaction is its
-- own, and holds the gates for as long as it runs.
select note_looks(projects => %(projects)s::text[], gates => %(gates)s::bigint[],
    look_projects => %(look_projects)s::text[], look_automations => %(look_automations)s::text[],
    look_moments => %(look_moments)s::bigint[], look_kinds => %(look_kinds)s::text[],
    look_callers => %(look_callers)s::text[], decisions => %(decisions)s::jsonb)
