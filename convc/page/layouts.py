"""Pictures of the layouts that a kernel uses: swizzles, MMAs at their addresses, loads, and tensor maps."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

from convc.compiler.plan.records import Plan
from convc.draw.descriptors import descriptor_picture
from convc.draw.fields import explain_map
from convc.draw.issued import issued_mmas
from convc.draw.mma import cropped, issued_layout, mma_picture
from convc.draw.registers import registers_picture
from convc.draw.svg import Picture
from convc.draw.swizzles import MODES, swizzle_picture
from convc.ir.launch import LaunchSpec, TensorMapParam

LOAD = re.compile(r"tcgen05\.ld\.sync\.aligned\.(\w+)\.(x\d+)")
Told = tuple[str, Picture]
"""A sentence that says where a layout is used, and the picture."""


def layouts(plan: Plan, text: str, launch: LaunchSpec, most: int) -> Iterator[Told]:
    """The layouts of a kernel: first shared memory, then what the tensor core reads and writes, then its way out.

    Of an MMA ``most`` rows and columns of D are drawn: 8 are a period of every swizzle, all would be megabytes.
    """
    yield from _swizzles(plan)
    yield from _mmas(text, launch, most)
    for shape, number in dict.fromkeys(LOAD.findall(text)):
        yield f"a warp of the epilogue loads tensor memory with .{shape}.{number}", registers_picture(shape, number)


def tensor_maps(launch: LaunchSpec) -> Iterator[Told]:
    """The tensor maps of a launch, which copies use, as the simulator has them; addresses are not known before it."""
    for number, param in enumerate(launch.params):
        if isinstance(param, TensorMapParam):
            said = f"parameter {number} of the kernel, a tensor map over {param.map.buffer}"
            yield said, descriptor_picture(explain_map(param.map))


def _swizzles(plan: Plan) -> Iterator[Told]:
    """The swizzle of each operand tile in shared memory, tiles with the same one together."""
    tiles: dict[str, list[str]] = defaultdict(list)
    for tile in plan.storage.smem:
        tiles[tile.swizzle].append(f"{tile.name} ({tile.rows} rows of {tile.row_bytes} bytes)")
    for mode, names in tiles.items():
        if mode in MODES:
            yield f"swizzle {mode} in shared memory: {', '.join(names)}", swizzle_picture(mode)


def _mmas(text: str, launch: LaunchSpec, most: int) -> Iterator[Told]:
    """The first MMA of each layout that the first CTA issues on the simulator."""
    seen: set[object] = set()
    for number, mma in enumerate(issued_mmas(text, launch)):
        form = (mma.shape, mma.a_in_tensor, mma.a >> 32, mma.b >> 32)
        if form not in seen:
            seen.add(form)
            yield f"MMA {number} of the first CTA, at its addresses", mma_picture(cropped(issued_layout(mma), most))
