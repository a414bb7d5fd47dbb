"""Read models of payments."""
