"""What the database is made of: migrations, functions, guards and roles."""
