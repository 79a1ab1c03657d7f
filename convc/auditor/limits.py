"""The demands of a launch, held against the text and the hardware (PTX 11.4, 11.7; CUDA programming guide)."""

from __future__ import annotations

import math

from convc.auditor.layout import Layout
from convc.auditor.ledger import Ledger
from convc.ir.launch import LaunchSpec
from convc.ptx import Kernel

SHARED = 232448
"""Bytes of shared memory that a CTA can have (227 KiB; compute capabilities 9.0 and 10.0)."""
SM_SHARED = 233472
RESERVED = 1024
"""Bytes that an SM has for all CTAs, and those that the system takes of each."""
STATIC = 49152
"""Bytes of static variables (48 KiB)."""
THREADS = 2048
CTAS = 32
COLUMNS = 512
PORTABLE = 8
REGISTERS = 65536
MOST_REGISTERS = 255


def check_launch(ledger: Ledger, kernel: Kernel, layout: Layout, launch: LaunchSpec) -> None:
    """Block, cluster and shared memory."""
    facts = {
        "reqntid": (launch.block, "block"),
        "reqnctapercluster": (launch.cluster, "cluster"),
    }
    for number, (name, (given, what)) in enumerate(facts.items()):
        wanted = kernel.directives.get(name)
        if wanted:
            ledger.look("launch-limits", -1 - number)
            if tuple(wanted) != tuple(given):
                ledger.accuse("launch-limits", f".{name} demands {what} {tuple(wanted)}, the launch has {given}", None)
    most = kernel.directives.get("maxntid")
    if most:
        ledger.look("launch-limits", -3)
        if math.prod(launch.block) > math.prod(most):
            ledger.accuse("launch-limits", f".maxntid {tuple(most)} is less than block {launch.block}", None)
    ledger.look("launch-limits", -4)
    total = layout.static + launch.shared_bytes
    if total > SHARED:
        what = f"{layout.static} static and {launch.shared_bytes} dynamic bytes of shared memory are more than {SHARED}"
        ledger.accuse("launch-limits", what, None)
    if layout.static > STATIC:
        ledger.accuse("launch-limits", f"static variables take {layout.static} bytes of shared memory", None)
    ledger.look("launch-limits", -5)
    largest = kernel.directives.get("maxclusterrank")
    if largest and math.prod(launch.cluster) > largest[0]:
        ledger.accuse("launch-limits", f".maxclusterrank {largest[0]} is less than cluster {launch.cluster}", None)
    ledger.look("launch-limits", -6)
    parameters = sum(max(each.size_bytes, 1) for each in kernel.params)
    if parameters > 32764:
        ledger.accuse("launch-limits", f"parameters take {parameters} bytes", None)


def resident(layout: Layout, kernel: Kernel, launch: LaunchSpec) -> int:
    """CTAs that an SM takes by what the launch and the text say: shared memory and threads."""
    threads = -(-math.prod(launch.block) // 32) * 32
    shared = layout.static + launch.shared_bytes + RESERVED
    return min(CTAS, THREADS // threads, SM_SHARED // shared)


def certainly_resident(fit: int, kernel: Kernel, launch: LaunchSpec) -> int:
    """Of CTAs that fit by `resident`, those that fit whatever registers the assembler takes for a thread."""
    warps = -(-math.prod(launch.block) // 32)
    most = kernel.directives.get("maxnreg", (MOST_REGISTERS,))[0]
    by_registers = REGISTERS // (warps * 32 * -(-most // 8) * 8)
    promised = kernel.directives.get("minnctapersm", (1,))[0]
    return min(fit, max(1, by_registers, promised))
