"""Query blueprints: named questions with parameters, whose answers are rows with evidence (G-065, G-153)."""
