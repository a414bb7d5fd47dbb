"""Weekly reports: their list, and one in its form."""
