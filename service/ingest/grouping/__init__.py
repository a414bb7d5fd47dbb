"""What makes two errors one kind, and which of them say nothing of a resolved case."""
