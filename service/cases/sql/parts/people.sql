-- The people of case `c` and of those that were merged into it (merged.sql). A person that several of them met counts
-- once, as far as so many people are told apart.
case when g.ids is null then users_affected else greatest(users_affected, (
    select count(*) from (
        select distinct u.user_id from case_users u
        where u.project_id = c.project_id and u.case_id = any(g.ids || c.id) limit 2000) d)) end
