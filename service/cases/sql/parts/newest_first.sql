-- The order of lists, and the length of a page.
order by c.opened_at desc, c.id desc limit %(limit)s
