"""Atoms: which thread holds which element of a tensor-core instruction, a formula of the PTX manual for each family.

from convc.atoms import find_atom
a, b, d = find_atom("mma.m16n8k8.tf32")
str(a.layout)        # ((4,8),(2,2)):((16,1),(8,64)): thread and value to row + 16 * column of A
a.places             # thread, value, row and column of every element, as arrays
"""

from convc.atoms.families import atom_names, find_atom
from convc.atoms.held import Atom, Held, Mode

__all__ = ["Atom", "Held", "Mode", "atom_names", "find_atom"]
