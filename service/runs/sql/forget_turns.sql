-- Delete the turns of more than a day ago: whatever is still due then comes first anyway.
delete from sweep_turns where considered_at < (select service_now()) - interval '1 day'
