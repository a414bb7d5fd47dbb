-- Hold a gate beside others to the end of the transaction: what closes the project or erases a person waits for it.
select pg_advisory_xact_lock_shared(%(gate)s::bigint)
