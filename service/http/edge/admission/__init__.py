"""Who is let in: address, credential, requests in flight, rate and quota."""
