"""What every machine shares."""
