-- Delete some of the oldest analytics events of a project in a partition; returns how many, and when the last of them
-- was received.
with gone as (
    \ir parts/doomed.sql
    returning e.received_at
)
select count(*), coalesce(max(g.received_at), 0) from gone g
