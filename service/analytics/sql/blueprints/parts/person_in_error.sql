-- The person whom error `e` names, if it names one (names_in_errors.sql).
case when %(linked)s then coalesce(n.person, e.user_id) else e.user_id end
