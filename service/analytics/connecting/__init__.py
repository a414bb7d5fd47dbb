"""The client of analytics providers: requests, OAuth, its secrets, and its registration."""
