-- The unfinished rebuilds, and how far they have come.
select name, events from rebuilds
