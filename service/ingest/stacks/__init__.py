"""Stack traces as text, in the forms of many languages."""
