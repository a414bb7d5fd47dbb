"""The log of events: of a project, of one stream, two moments of it compared, and how to verify it."""
