-- Drops what was counted and kept of a project's provider once another one is connected (G-182). Cases stay, with what
-- came by DSN; one that has no more is called by no text of the former provider.
create or replace function drop_provided(project text) returns void language plpgsql as $body$
begin
    perform from case_stats t where t.project_id = project and t.provider_count is not null
    order by t.id for no key update;
    update case_stats t set event_count = t.own_count, users_affected = t.own_people,
        first_seen_at = coalesce(t.own_first_seen_at, t.first_seen_at),
        last_seen_at = coalesce(t.own_last_seen_at, t.last_seen_at), unmarked = t.own_unmarked,
        title = case when t.own_count = 0 then 'Error of a provider that was disconnected' else t.title end,
        message = case when t.own_count = 0 then '' else t.message end,
        culprit = case when t.own_count = 0 then null else t.culprit end,
        provider_count = 0, provider_people = 0, provider_last_seen_at = null, provider_sample = null
    where t.project_id = project and t.provider_count is not null;
    delete from provider_counts t where t.project_id = project;
    delete from provider_groups t where t.project_id = project;
    delete from provider_uuids t where t.project_id = project;
end
$body$;
