"""The screenshots of the docs, made anew from a real server: `python -m scripts.pictures`."""
