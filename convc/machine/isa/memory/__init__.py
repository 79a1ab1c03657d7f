"""Loads, stores and atomics."""
