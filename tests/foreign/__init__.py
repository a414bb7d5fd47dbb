"""The service beside other products that do the same."""
