"""Figures of commands: chains, rivals, ends, large events, starts."""
