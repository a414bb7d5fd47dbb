"""What a process tells of itself: access log, metrics, memory."""
