"""The HTTP edge: one module per resource, and the pipeline that every request goes through."""
