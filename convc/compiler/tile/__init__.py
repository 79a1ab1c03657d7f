"""The tile package: a kernel as roles and tile-level steps, each with how it is spelled."""
