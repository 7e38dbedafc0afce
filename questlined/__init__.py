"""questlined: a durable work queue for command-line coding agents."""

__version__ = "0.1.0"
