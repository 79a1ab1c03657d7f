"""Whole models: every node runs, convolutions from their kernels, the others on the host."""
