-- What is read of a case to show it in a list.
select c.project_id, c.id, c.fingerprint, s.title, s.level, c.status, c.case_revision, s.unmarked, s.environment,
    s.release, s.event_count, s.users_affected, s.first_seen_at, s.last_seen_at, c.suppression_id, c.opened_at,
    c.merged_into
