"""The pages of the console, a folder an area. A module takes part by exporting `PAGES`."""
