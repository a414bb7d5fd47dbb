"""Places in minified code are looked up in maps that a trial has found harmless."""
