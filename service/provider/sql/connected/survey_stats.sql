-- How often each event of a survey happened, and to how many people.
select event, count(), uniq(person_id) from events
where event in {events} and properties.$survey_id = {survey}
group by event limit 10
