"""Usage, plans and payments: commands and reads."""
