"""The tile room: a kernel as roles and tile-level steps, before any text exists."""
