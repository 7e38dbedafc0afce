"""The durable queue: a protocol, its rows, and one package for each database."""
