-- How many events name each of some releases in a period; the first text of three properties counts.
select coalesce(nullIf(JSONExtractString(properties, 'release'), ''),
    nullIf(JSONExtractString(properties, '$release'), ''),
    JSONExtractString(properties, '$app_version')) as release, count() from events
where timestamp >= toDateTime({earliest}) and created_at >= toDateTime({since}) and created_at < toDateTime({until})
    and release in {releases}
group by release limit {most}
