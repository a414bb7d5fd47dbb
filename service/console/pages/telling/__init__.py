"""What a project tells others: webhooks, alerts and public queries."""
