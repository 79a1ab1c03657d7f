"""Schedules: each one way to run a convolution, from its candidates to the steps of its roles."""
