-- compatible: yes
-- Whether messages to chats hold the titles of cases. Null: they do. The release before sends no such message.
alter table project_settings add column notification_titles boolean;
