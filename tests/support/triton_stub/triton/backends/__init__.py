"""Interfaces of backends."""
