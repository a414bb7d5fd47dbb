"""A runner to start with: repairs one error for one automation, and opens the one pull request.

It runs at the customer's, with the standard library and git alone, and imports nothing of the service.
"""
