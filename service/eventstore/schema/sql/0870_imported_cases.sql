-- compatible: yes
-- Cases that an import has opened. Null for all others, whose rows stay as short as they are. The release before imports
-- nothing.
alter table cases add column imported boolean;
