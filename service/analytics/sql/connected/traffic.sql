-- How many events of any name came in a period before a moment (0) and from it on (1).
select if(created_at < toDateTime({moment}), 0, 1) as place, count() from events
where timestamp >= toDateTime({earliest}) and created_at >= toDateTime({since}) and created_at < toDateTime({until})
group by place order by place limit {most}
