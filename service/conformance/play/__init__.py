"""One scenario played to one runner: the stage, and the play on it."""
