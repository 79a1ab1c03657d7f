"""The version of convc, said once."""

__version__ = "0.2.0"
