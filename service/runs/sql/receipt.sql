-- One receipt with what hangs on it.
select
\ir parts/receipt_bundle.sql
::text
from trigger_receipts t
where t.project_id = %(project_id)s and t.id = %(receipt_id)s
