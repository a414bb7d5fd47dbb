"""Clients made by three generators from the schema document carry out one path against a real server."""
