-- Cases that have all words of a text, if they are not many.
select s.id from case_stats s where s.project_id = %(project_id)s
and
\ir parts/of_words.sql
limit %(most)s
