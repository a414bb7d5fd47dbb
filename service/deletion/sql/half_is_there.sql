-- Whether a table that a rebuild has made is there.
select to_regclass(%(half)s) is not null
