"""The whole automation loop as a game: actors, a network that loses and repeats, and rules that always hold."""
