-- Delete the deploys of days whose usage is shown no longer.
delete from usage_deploys where day < %(day)s
