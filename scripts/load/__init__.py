"""Load on a running service: its worlds, its generator, its threads."""
