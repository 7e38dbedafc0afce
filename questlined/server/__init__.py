"""Varlink on a Unix socket. Holds no rules."""
