"""What auditors rely on beside the events themselves."""
