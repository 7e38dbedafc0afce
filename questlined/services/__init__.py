"""The loops. Each waits for events; a timer is only the safety net."""
