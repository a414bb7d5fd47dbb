"""Credentials of a project: made for CI and runners by owners, and exchanged by CI for the tokens of its issuer."""
