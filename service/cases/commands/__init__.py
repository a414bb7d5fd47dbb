"""What is done to cases and to the rules about them."""
