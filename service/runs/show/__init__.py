"""How runs, decisions, back-tests and the control room are shown."""
