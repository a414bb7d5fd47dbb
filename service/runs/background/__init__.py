"""What happens to runs without a caller: the sweep, ends, back-tests."""
