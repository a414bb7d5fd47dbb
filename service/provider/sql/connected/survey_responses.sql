-- The newest responses to a survey, as the provider's libraries send them.
select toString(uuid), distinct_id, toUnixTimestamp(timestamp), properties from events
where event = 'survey sent' and properties.$survey_id = {survey}
order by timestamp desc limit {most}
