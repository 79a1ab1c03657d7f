"""Decoding a module once, and running it on cohorts of CTAs."""
