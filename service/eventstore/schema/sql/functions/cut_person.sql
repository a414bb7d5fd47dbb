-- Takes somebody who is being erased out of what is counted of some cases, `most` pairs of a case and a name at a time;
-- answers how many there were. The caller holds the project's gate exclusively, so no flush counts meanwhile: who came
-- under such a name since the fence is told apart from whoever had it before. Null, with nothing done, as long as the
-- second of the fence is not over: what is stored within it goes, too, and has to be there by now. Counters stay; `erased_people` tells them
-- from the rows that are left. A sample of an error of theirs keeps nothing but when and where it was, and the tags
-- of a first error that may be theirs go.
create or replace function cut_person(project text, erasure text, most bigint) returns bigint language plpgsql as $body$
declare
    gone   text[];
    cutoff bigint;
    pairs  bigint;
begin
    if service_seconds() <= (select e.until from erasure_names e where e.project_id = project and e.id = erasure) then
        return null;
    end if;
    perform pg_advisory_xact_lock(805, hashtext(project));
    perform cut_links(project => project);
    select array(select jsonb_array_elements_text(e.names)), e.until into gone, cutoff
    from erasure_names e where e.project_id = project and e.id = erasure;
    perform from case_stats s
    where s.project_id = project and s.id in (
        select u.case_id from case_users u
        where u.project_id = project and u.user_id = any(gone) and u.first_seen_at <= cutoff
        order by u.user_id, u.case_id limit most)
    order by s.id for no key update;
    with met as (
        select u.case_id, u.user_id, u.first_seen_at, u.last_seen_at > cutoff as again from case_users u
        where u.project_id = project and u.user_id = any(gone) and u.first_seen_at <= cutoff
        order by u.user_id, u.case_id limit most
    ), anew as (
        update case_users u set user_email = null, error_count = r.errors, first_seen_at = r.first_at
        from met s cross join lateral (
            select greatest(count(*), 1) as errors, coalesce(min(e.received_at), cutoff + 1) as first_at
            from log_events e
            where e.project_id = project and e.case_id = s.case_id and e.user_id = s.user_id and e.received_at > cutoff
        ) r
        where s.again and u.project_id = project and u.case_id = s.case_id and u.user_id = s.user_id
    ), dropped as (
        delete from case_users u using met s
        where not s.again and u.project_id = project and u.case_id = s.case_id and u.user_id = s.user_id
    ), counted as (
        update case_stats c set erased_people = c.erased_people + o.people, own_people = c.own_people + o.again,
            users_affected = greatest(coalesce(c.own_people, c.users_affected) + o.again, c.provider_people),
            tags = case when o.first_at > c.first_seen_at then c.tags end,
            sample = case when c.sample ->> 'user_id' = any(gone) and (c.sample ->> 'received_at')::bigint <= cutoff
                then c.sample || '{"user_id": null, "message": "", "tags": {}, "adjusted": []}' else c.sample end
        from (select s.case_id, count(*) as people, count(*) filter (where s.again) as again,
            min(s.first_seen_at) as first_at from met s group by 1) o
        where c.project_id = project and c.id = o.case_id
    )
    select count(*) into pairs from met;
    return pairs;
end
$body$;
