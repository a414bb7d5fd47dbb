"""Wire contract of the Model Context Protocol."""
