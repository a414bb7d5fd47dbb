"""What an operation declares, and what its handler is called with."""
