-- compatible: yes
-- Where the evidence of a proof was read (G-183). What the release before records was read in our own records, or does not
-- tell.
alter table onboarding add column evidence_source text collate "C" not null default 'local';
alter table signal_maps add column evidence_source text collate "C" not null default 'local';
alter table installs add column evidence_source text collate "C" not null default 'local';
