"""The answers of discovery."""
