"""One flush: records, counters and the cases they open, in one transaction."""
