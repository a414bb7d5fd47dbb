"""Product analytics: events, reads, and the provider's connection: the operations."""
