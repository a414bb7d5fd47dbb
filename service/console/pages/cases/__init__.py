"""Cases, their errors and people, and the rules and source maps about them."""
