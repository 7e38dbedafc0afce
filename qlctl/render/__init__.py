"""How things look on a terminal: text made safe, tables, times, colour."""
