"""The scenarios, and the kit's part in each."""
