-- How many people of a project reached each step of an ordered funnel within a period, by the times of receipt: see
-- funnel_by_time.
create or replace function ordered_funnel(
    project text, steps text[], since bigint, until bigint, most_rows bigint
) returns bigint[] language plpgsql stable
as $body$
begin
    return funnel_by_time(project, steps, since, until, most_rows, 0);
end
$body$;
