"""Where the demo plays: its world, its stage, its product's host, workshop and runner."""
