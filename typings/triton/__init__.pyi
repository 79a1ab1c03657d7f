"""The part of Triton's runtime that convc stands in for; it need not be installed to check types."""

__version__: str
