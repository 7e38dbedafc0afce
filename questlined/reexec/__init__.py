"""The running program replaced by the installed one, in the same process, with all that runs."""
