-- compatible: yes
-- The probability of an error that a verified repair must not exceed (G-173, G-202). Null: none is demanded. The release
-- before does not ask. A decimal text, as in events.
alter table project_settings add column maximum_error_probability text;
