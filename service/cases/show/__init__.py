"""From rows of cases to answers."""
