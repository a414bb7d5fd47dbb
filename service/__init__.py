"""Everything that touches the world: event store, HTTP, ingest, providers, command line."""
