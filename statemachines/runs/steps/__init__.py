"""What is done in a run, each step decided on its book, until it ends."""
