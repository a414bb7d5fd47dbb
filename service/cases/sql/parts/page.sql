-- What is read of a case to show it in a list.
select c.project_id, c.id, c.fingerprint, s.title, s.level, c.status, c.case_revision, s.unmarked, s.environment,
    s.release, s.event_count, s.users_affected, s.first_seen_at, s.last_seen_at, c.suppression_id, c.opened_at,
    c.merged_into, coalesce(s.first_occurred_at, s.first_seen_at) as first_occurred_at,
    coalesce(s.last_occurred_at, s.last_seen_at) as last_occurred_at, s.own_count
