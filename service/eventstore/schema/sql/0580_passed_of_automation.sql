-- compatible: yes
-- The decisions of one automation that passed: a page of them would otherwise look through those of all automations.
create index automation_decisions_passed_of on automation_decisions (project_id, automation_id, seq)
    where code is null;
