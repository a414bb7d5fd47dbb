-- What the cases that were merged into case `c` have counted.
left join lateral (
    select array_agg(m.id) as ids, sum(t.event_count)::bigint as events, min(t.first_seen_at) as first_at,
        max(t.last_seen_at) as last_at, min(coalesce(t.first_occurred_at, t.first_seen_at)) as first_occurred_at,
        max(coalesce(t.last_occurred_at, t.last_seen_at)) as last_occurred_at, bool_or(t.unmarked) as unmarked
    from cases m join case_stats t on t.project_id = m.project_id and t.id = m.id
    where m.project_id = c.project_id and m.merged_into = c.id
) g on true
