-- Find the errors of reports that came before them, in all projects; returns how many found theirs.
select settle_feedback(project => null, seconds => %(seconds)s, most => %(most)s)
