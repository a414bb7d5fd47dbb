-- How many cases of a status there are after a place, up to a bound.
select count(*) from (
    select from cases c where
    \ir parts/among.sql
    limit %(most)s
) n
