"""Places in minified code, looked up in maps after a harmless trial."""
