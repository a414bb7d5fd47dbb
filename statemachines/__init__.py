"""The domain: events, states, transition tables, decisions. Pure: no I/O, no clock, no randomness."""
