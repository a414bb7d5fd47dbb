"""The pages for people: the repository's documentation and the guides, as HTML and searchable (G-166)."""
