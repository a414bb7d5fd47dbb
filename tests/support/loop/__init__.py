"""The automation loop as a game: actors, a network that loses and repeats messages, and invariants."""
