"""Product analytics: events, reads, and the provider's connection, on the wire."""
