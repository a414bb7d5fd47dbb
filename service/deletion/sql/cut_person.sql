-- Take somebody who is being erased out of what is counted by case, a step: how many pairs of case and name. Null
-- when it is too early.
select cut_person(project => %(project_id)s, erasure => %(id)s, most => %(most)s)
