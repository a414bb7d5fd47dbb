-- note_sighting --
-- Notes what the provider said of a team when it was asked last. A row that is gone stays gone.
update provider_sightings
set asked_at = %(asked_at)s, confirmed_revision = %(confirmed_revision)s::bigint,
    last_recording_at = greatest(last_recording_at, %(last_recording_at)s::bigint)
where project_id = %(project_id)s and id = %(id)s and asked_at <= %(asked_at)s
