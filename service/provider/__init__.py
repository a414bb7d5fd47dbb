"""The operator's teams at the analytics provider, and what a project's provider keeps beside events."""
