"""What a caller declares of a command, how it is written down, and what an error means for it."""
