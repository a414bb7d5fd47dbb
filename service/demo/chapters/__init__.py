"""The chapters of the demo, a folder for each part of its story."""
