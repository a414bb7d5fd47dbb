-- Delete some of a project's oldest decisions that are past its days. Of an automation and a case even the last record
-- goes: the next look that considers the case makes it anew.
delete from automation_decisions d
where d.project_id = %(project_id)s and d.id = any(array(
    select o.id from automation_decisions o
    where o.project_id = %(project_id)s and o.decided_at < (select service_seconds()) - %(days)s * 86400
    order by o.seq limit %(most)s))
