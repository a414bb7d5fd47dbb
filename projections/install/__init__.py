"""The install of a project, as a row."""
