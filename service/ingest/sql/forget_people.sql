-- Forget some of the people of a project who were told of before a time and have no records; the last name looked at.
select forget_people(project => %(project_id)s, until => %(until)s, after => %(after)s, most => %(most)s)
