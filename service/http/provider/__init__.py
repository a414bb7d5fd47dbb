"""Doors to what a project has at the analytics provider beside events."""
