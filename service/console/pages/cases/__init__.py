"""Cases, their errors, who met them, and the rules and source maps about them."""
