"""Runs the snippets of `GET /v1/install/sdk/{language}` as their readers do."""
