"""Where a scenario is played."""
