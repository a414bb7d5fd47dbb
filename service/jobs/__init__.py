"""Background work by area: what can be run, and which events defer it."""
