"""What writes pages of README and docs from the code."""
