-- Whether anybody in the project has more than one name.
select
\ir parts/linked.sql
