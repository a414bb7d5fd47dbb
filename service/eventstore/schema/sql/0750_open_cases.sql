-- compatible: yes
-- How many cases of a project are open: its health and the pages of the console count them, and there may be very many.
create index cases_open on cases (project_id) where status = 'open';
