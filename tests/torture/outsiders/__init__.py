"""What an outsider finds who has kept a checkpoint."""
