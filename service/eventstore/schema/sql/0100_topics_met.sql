-- compatible: yes
-- The topics that the reactor has met in the log since this table is here, and where it met each first: a release that
-- runs beside a later one, or after it, sees in a few rows whether the log holds what it cannot read.
create table topics_met (
    topic          text   primary key collate "C",
    first_position bigint not null
);
