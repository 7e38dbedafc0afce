"""One attempt from its lease to its outcome."""
