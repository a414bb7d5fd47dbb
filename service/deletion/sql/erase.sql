-- Erase the payloads of a scope, a step; returns how many, and where the next step begins.
select * from erase_payloads(erased_scope => %(scope)s, deletion_id => %(deletion_id)s,
    after_stream => %(after_stream)s, after_revision => %(after_revision)s, max_rows => %(most)s)
