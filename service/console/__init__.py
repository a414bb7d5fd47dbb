"""The console: pages for people over the operations of the API, at `/console`."""
