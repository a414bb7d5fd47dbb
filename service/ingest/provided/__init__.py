"""Errors of a project's connected provider: asked for, grouped and counted (G-182)."""
