"""The one write path: batches of commands, each in one transaction, and the lane of fences."""
