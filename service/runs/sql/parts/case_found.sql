-- The members of a case `c` that is counted in `s`, with its chain (chain.sql). Of a chain only the states count: of a
-- receipt whose run has begun only that it has, of a run only what ends it with time, and of one that is over when it
-- ended, and what people did to its pull request. The rest of them is most of what a look would read.
'id', c.id, 'revision', c.case_revision, 'status', c.status, 'unmarked', s.unmarked,
'event_count', s.event_count, 'first_seen_at', s.first_seen_at, 'last_seen_at', s.last_seen_at,
'provider_read_to', case when s.provider_count > 0 then (
    select coalesce(max(read_to), 0) from provider_looks where project_id = c.project_id) end,
'lease', row_to_json(l),
'receipt', case when t.run_id is null then t.state::json
    else json_build_object('status', t.status, 'run_id', t.run_id) end,
'claim', k.state,
'run', case when r.live then json_build_object(
    'status', r.state -> 'status', 'deadline_at', r.deadline_at, 'claim_id', r.claim_id,
    'grants', r.state -> 'grants')
    when r.id is not null then json_build_object(
        'status', r.state -> 'status', 'finished_at', r.state -> 'finished_at',
        'sights', coalesce(r.state -> 'sights', '[]'))
    end
