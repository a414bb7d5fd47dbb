"""How the installation does."""
