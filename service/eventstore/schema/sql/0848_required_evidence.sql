-- compatible: yes
-- Whose evidence a contract needs to be enabled (G-183, G-202). Null: anybody's. The release before does not ask.
alter table project_settings add column required_evidence_source text;
