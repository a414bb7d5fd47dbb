"""What the interface answers to bad requests: those of every operation are sent to a real server and kept as text."""
