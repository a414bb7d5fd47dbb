"""Storms: the real service under kills, lost answers and rivals, with a checker over what its clients saw."""
