-- survey_responses --
-- The newest responses to a survey, as the provider's libraries send them.
select toString(uuid), distinct_id, toUnixTimestamp(timestamp), properties from events
where event = 'survey sent' and properties.$survey_id = {survey}
order by timestamp desc limit {most}

-- survey_stats --
-- How often each event of a survey happened, and to how many people.
select event, count(), uniq(person_id) from events
where event in {events} and properties.$survey_id = {survey}
group by event limit 10
