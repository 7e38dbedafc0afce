"""The rules, pure: no I/O, no clock read (`now` is an argument), no SQL."""
