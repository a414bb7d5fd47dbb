-- Cases of a status as it is shown; of any when it is null.
(%(status)s::text is null or replace(replace(c.status, 'overflow', 'open'), 'merged', 'ignored') = %(status)s)
