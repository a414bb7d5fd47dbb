"""Analytics providers behind one port: `local` and `connected`."""
