-- How many people reached each step of a funnel; null when there are too many rows. What is kept is known before
-- anything is counted: the evening's purge may take what the morning's count has seen.
select (select service_today()),
    case when %(since)s >= (select service_today()) - %(kept)s then ordered_funnel(project => %(project_id)s,
        steps => %(events)s::text[], since => %(since)s, until => %(until)s, most_rows => %(most_rows)s) end
