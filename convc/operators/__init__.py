"""Operators that become convolutions of other types or shapes: pure functions on problems and arrays."""
