"""Analytics: the providers behind one port, `local` and `connected`, and how projects are connected."""
