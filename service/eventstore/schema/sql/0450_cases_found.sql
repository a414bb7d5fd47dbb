-- compatible: yes
-- What puts the cases in order that an index of elements has found: a page of a list by environment, release or words
-- may have thousands of them, and reads the rows of those alone that it shows.
create index cases_found on cases (project_id, id) include (opened_at, status);
