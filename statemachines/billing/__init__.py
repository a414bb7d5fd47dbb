"""Payments: an account's subscriptions."""
