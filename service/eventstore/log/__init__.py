"""The log of all events in one order, and who follows it."""
