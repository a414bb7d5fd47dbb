"""Stack traces as text, in the forms of many languages: a module for each family of them."""
