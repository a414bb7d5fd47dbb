"""Events of a project in the order of the log, on the wire."""
