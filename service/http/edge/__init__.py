"""What every request passes: the application and its steps."""
