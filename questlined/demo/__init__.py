"""The demo: the main job on a daemon of its own, seen live. A client of the socket like any other."""
