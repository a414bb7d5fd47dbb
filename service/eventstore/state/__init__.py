"""What a unit of work is decided on: commands that wait, states that are loaded and kept."""
