-- Drop the tables that a killed rebuild has left.
select drop_rebuild_halves(read_model => %(read_model)s)
