"""Integers, comparisons, moves."""
