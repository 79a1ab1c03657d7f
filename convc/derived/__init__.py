"""The record of the derivation, as data for those who put numbers in: no sympy here, and nothing of a kernel."""
