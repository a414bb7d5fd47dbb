-- Delete the usage of days that are shown no longer.
delete from usage_days where day < %(day)s
