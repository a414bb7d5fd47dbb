"""The install flow: draft, report, verify, and what each project is asked."""
