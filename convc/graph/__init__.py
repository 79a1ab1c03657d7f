"""Whole networks: every node of a model in order, convolutions from their PTX, the rest on the host."""
