"""Storms: the real service under kills, lost answers and races, with a checker over the journals of its clients."""
