"""Following the log: one reader of new positions for everybody in a process who waits for a change."""
