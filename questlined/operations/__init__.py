"""What a client may ask: one module a family, every rule here or in core."""
