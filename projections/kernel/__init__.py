"""What every read model shares."""
