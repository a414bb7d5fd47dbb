"""Wire contracts of usage and quota."""
