"""Answers and messages: webhooks, a funnel, an alert, a public query."""
