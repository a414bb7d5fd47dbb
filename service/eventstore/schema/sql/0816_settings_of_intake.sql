-- compatible: yes
-- What a project's intake does with records: the level of one without any (G-191), and whether frames of errors keep the
-- values of their variables (G-202). The release before changes neither.
alter table project_settings add column default_level text, add column frame_variables boolean;
