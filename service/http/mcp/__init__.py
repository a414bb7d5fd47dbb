"""MCP at the edge: tools for agents over the operations of the API."""
