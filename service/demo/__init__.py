"""`service demo`: takes a small product through the whole flow, over HTTP only."""
