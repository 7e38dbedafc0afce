"""Processes: spawned, watched by pidfd, taken down, swept and reaped; their output pumped and watched.

spawn → child.exited → take_down (the one ladder) → sweep until nothing of it lives → reap
"""
