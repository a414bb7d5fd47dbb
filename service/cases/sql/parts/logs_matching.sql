-- Those of the records `e` that a list below `error` shows. A trace may stand in what is packed: such are candidates.
e.case_id is null
    and (%(level)s::text is null or e.level = %(level)s)
    and (%(release)s::text is null or e.release = %(release)s)
    and (%(text)s::text is null or strpos(lower(e.message), lower(%(text)s)) > 0)
    and (%(trace)s::text is null or e.packed is not null or strpos(e.extra::text || e.tags::text, %(trace)s) > 0)
    and (%(since)s::bigint is null or coalesce(e.occurred_at, e.received_at) >= %(since)s)
    and (%(until)s::bigint is null or coalesce(e.occurred_at, e.received_at) <= %(until)s)
order by e.received_at desc, e.id desc limit %(limit)s
