"""Events of a project in the order of the log, for its owners and auditors."""
