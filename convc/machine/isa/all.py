"""Every builder of every chapter: importing this module registers them all, and it tells which forms have a trait."""

# ruff: noqa: F401 - imported for what they register
# pyright: reportUnusedImport=false

from __future__ import annotations

from functools import cache

import convc.machine.isa.copies.async_copies
import convc.machine.isa.copies.async_stores
import convc.machine.isa.copies.bulk_copies
import convc.machine.isa.copies.tensor_copies
import convc.machine.isa.copies.tensor_stores
import convc.machine.isa.float.convert
import convc.machine.isa.float.float_forms
import convc.machine.isa.float.floating
import convc.machine.isa.float.narrow_floats
import convc.machine.isa.memory.atomics
import convc.machine.isa.memory.ld_st
import convc.machine.isa.scalar.bitfields
import convc.machine.isa.scalar.compare
import convc.machine.isa.scalar.integer
import convc.machine.isa.scalar.integer_forms
import convc.machine.isa.scalar.logic
import convc.machine.isa.scalar.move
import convc.machine.isa.scalar.products
import convc.machine.isa.sync.barriers
import convc.machine.isa.sync.clusters
import convc.machine.isa.sync.control
import convc.machine.isa.sync.launch_control
import convc.machine.isa.sync.mbarriers
import convc.machine.isa.tcgen05.alloc
import convc.machine.isa.tcgen05.commit_wait
import convc.machine.isa.tcgen05.ld_st
import convc.machine.isa.tcgen05.mma
import convc.machine.isa.warp.ldmatrix
import convc.machine.isa.warp.mma_sync
import convc.machine.isa.warp.shuffle_vote
import convc.machine.isa.warp.wmma
import convc.machine.isa.wgmma.groups
import convc.machine.isa.wgmma.multiply
import convc.machine.isa.wgmma.register_pool
from convc.machine.isa.registry import TRAITS, Traits


@cache
def forms_with(wanted: Traits) -> frozenset[str]:
    """The names of all forms that have any of some traits."""
    bits = wanted.value
    return frozenset(name for name, traits in TRAITS.items() if bits & traits)
