"""The version of convc, said once."""

__version__ = "0.1.0"
