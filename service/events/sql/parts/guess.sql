-- About how many bytes the payload of an event has as text, without a look into a compressed one: it may be 1 to 80
-- times its size in the table.
coalesce(pg_column_size(e.payload) * case when pg_column_compression(e.payload) is null then 1 else 16 end, 0)
