-- The last second that counts for what is read after this.
select settled_until(gate => %(gate)s, lag => %(lag)s)
