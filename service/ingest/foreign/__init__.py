"""What foreign SDKs send, as it is read: each protocol's own form, and the one form that all of them become."""
