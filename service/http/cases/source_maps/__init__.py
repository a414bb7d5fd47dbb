"""Source maps: uploaded by build tools, and looked up."""
