"""All projects, and the overview of one."""
