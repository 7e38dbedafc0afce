"""What an agent program says, without I/O: one module a protocol or preset."""
