"""What every request passes: the application, its steps and the declarations."""
