"""The texts that cost most, in every text field of the interface, and a watch over the steps of the event loop."""
