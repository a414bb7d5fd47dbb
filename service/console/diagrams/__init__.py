"""Pictures of state machines, drawn on the server without any other program."""
