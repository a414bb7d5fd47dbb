"""`service demo`: carries a small product through the whole job, over HTTP only."""
