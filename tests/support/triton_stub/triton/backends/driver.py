"""The runtime's side of a backend."""


class DriverBase:
    """A driver."""
