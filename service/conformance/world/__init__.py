"""What a runner finds: a project with a receipt, a repository with an error, and a place to run in."""
