"""The way of a project from a plan to its proof."""
