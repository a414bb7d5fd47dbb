"""Signing people in at an OIDC issuer: the way there and back, its documents, and its tokens."""
