-- What a sweep takes up in a step: first what has waited longest, whoever it belongs to, then some of what remains, by
-- accounts in turn, of which those come first that have none among the former.
with due as (
    select d.project_id, d.id, paying_account(project => p.project_id, maker => p.created_by) as account,
        row_number() over (order by t.considered_at nulls first, d.project_id, d.id) as place
    from (
        \ir parts/due.sql
    ) d
    join projects p on p.project_id = d.project_id and p.id = d.project_id and p.status = 'active'
    left join sweep_turns t on t.project_id = d.project_id and t.step = d.step and t.id = d.id
    where d.step = %(step)s
), shared as (
    select *, place > %(longest)s as by_account,
        row_number() over (partition by account, place > %(longest)s order by place) as of_account,
        bool_or(place <= %(longest)s) over (partition by account) as served
    from due
)
select project_id, id
from shared
order by by_account, case when by_account then of_account end, by_account and served, place
limit %(most)s
