-- compatible: yes
-- The level of records without one in a project without the setting (G-191). It is fixed when a project is made: `error` in
-- those from before, and in those that the release before makes.
alter table public_dsns add column default_level text not null default 'error';
