-- How many rules of notifications a project has. A rule ends with the membership under which it was made.
create or replace function standing_rules(project text) returns bigint language sql stable as $body$
    select count(*) from notification_destinations d
    cross join lateral jsonb_to_recordset(d.rules) r(member_id text, set_at bigint)
    join memberships m on m.project_id = d.project_id and m.user_id = r.member_id and m.created_at <= r.set_at
    where d.project_id = project
$body$;
