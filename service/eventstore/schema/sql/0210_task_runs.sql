-- compatible: yes
-- When each scheduled task last ran to its end, by the clock of the machine, and how long that took. Whoever watches the
-- service asks this: a finished job leaves nothing else behind.
create table task_runs (
    task        text collate "C" primary key,
    finished_at timestamptz      not null,
    seconds     double precision not null
) with (fillfactor = 50);
