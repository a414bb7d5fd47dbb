"""Source maps: kept for a project, and the frames of errors led back through them."""
