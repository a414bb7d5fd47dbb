"""What stands between a runner and the world: a proxy before the service, a code host, and a trap elsewhere."""
