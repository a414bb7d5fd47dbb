"""Stack traces as the runtimes of many languages print them (G-175)."""
