"""Messages of a project to others: webhooks, alerts and public queries."""
