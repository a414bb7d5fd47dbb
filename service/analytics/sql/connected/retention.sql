-- Who had an event on a day and another on a later day of the period: by both days, how many people.
select day, returned_on, count() from (
    select arrayJoin(began) as day, arrayJoin(returned) as returned_on from (
        select distinct_id,
            groupUniqArrayIf(intDiv(toUnixTimestamp(created_at), 86400) * 86400, event = {start_event}) as began,
            groupUniqArrayIf(intDiv(toUnixTimestamp(created_at), 86400) * 86400, event = {return_event}) as returned
        from events
        where event in {events} and timestamp >= toDateTime({earliest})
            and created_at >= toDateTime({since}) and created_at < toDateTime({until})
        group by distinct_id
    )
) where returned_on > day
group by day, returned_on order by day, returned_on limit {most}
