"""Atoms: which thread holds which element of a tensor-core instruction, a formula of the PTX manual for each family."""
