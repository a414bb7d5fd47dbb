-- How many people came to each level of an ordered funnel and no further. The window of a person is the whole period,
-- so it takes nothing away; steps that a funnel does not have are named by the empty text, which no event is called.
select level, count() from (
    select distinct_id, windowFunnel({window})(toUnixTimestamp(created_at),
        event = {step_1}, event = {step_2}, event = {step_3}, event = {step_4}, event = {step_5},
        event = {step_6}, event = {step_7}, event = {step_8}, event = {step_9}, event = {step_10},
        event = {step_11}, event = {step_12}, event = {step_13}, event = {step_14}, event = {step_15},
        event = {step_16}, event = {step_17}, event = {step_18}, event = {step_19}, event = {step_20}) as level
    from events
    where event in {events} and timestamp >= toDateTime({earliest})
        and created_at >= toDateTime({since}) and created_at < toDateTime({until})
    group by distinct_id
) where level > 0 group by level order by level limit {most}
