-- Hold a gate exclusively to the end of the transaction: nothing of its project is stored meanwhile.
select pg_advisory_xact_lock(%(gate)s::bigint)
