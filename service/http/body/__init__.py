"""The body of a request: its arrival, its place, its unpacking, its gate, its form."""
