"""What pages compute from texts of others. It is bounded before it begins, and imports nothing of the API."""
