"""The grouping of errors, compared with Sentry's own code on events of the public repository bugsink/event-samples."""
