-- Delete what is counted of kinds that are not kept, of days that are shown no longer.
delete from kinds_not_kept where day < %(day)s
