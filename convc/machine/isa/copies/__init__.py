"""Asynchronous copies: bulk, tensor, cp.async."""
