-- Receipts by name, each with what hangs on it.
select
\ir parts/receipt_bundle.sql
::text
from trigger_receipts t
where (t.project_id, t.id) in (select * from unnest(%(projects)s::text[], %(ids)s::text[]))
