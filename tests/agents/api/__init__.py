"""A stand-in on the loopback for the model APIs that coding agents call: the prompt says how it behaves."""
