-- The account that pays for a project.
select p ->> 3 from json_array_elements(ingest_projects(wanted => array[%(project_id)s])) p
