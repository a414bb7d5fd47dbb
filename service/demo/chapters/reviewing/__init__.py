"""Looking back: the weekly review, a back-test, a pause, the end of the project."""
