"""Product analytics: events, reads, and the provider's connection, as rows."""
