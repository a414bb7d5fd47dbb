"""What an account has used: the operations."""
