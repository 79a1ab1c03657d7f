"""Published steps of a warp's products, for ``convc time --passes``: those of Volta and Turing (`convc.atoms.hmma`)."""

from __future__ import annotations

import re

from rich.console import Console

from convc.atoms.hmma import ARCHS, PAPER, PORT_BITS, SHAPES, STEP_CYCLES, HmmaStep, spanned, steps
from convc.report.console import print_part
from convc.timing.kernel import KernelTime

PRODUCT = re.compile(r"\.(m\d+n\d+k\d+)(?:\.(?:row|col))*\.(f16|f32)(?:\.f16\.f16)?\.(?:f16|f32)$")
"""Shape and type of D of a wmma.mma or mma.sync of f16, whose layouts come before or behind the shape."""


def published(kernel: KernelTime) -> tuple[tuple[str, str, tuple[HmmaStep, ...]], ...]:
    """The products of a kernel whose steps are published: spelling, architecture, steps."""
    products: list[tuple[str, str, tuple[HmmaStep, ...]]] = []
    for product in kernel.products:
        shape = PRODUCT.search(product)
        for arch in ARCHS:
            if shape is not None and shape[1] in SHAPES[arch]:
                products.append((product, arch, steps(arch, shape[2], shape[1])))
    return tuple(products)


def print_hmma(console: Console, kernel: KernelTime) -> None:
    """The HMMAs of each product of a kernel on each architecture whose steps are published, a line each."""
    for product, arch, hmmas in published(kernel):
        print_part(console, f"{product} on {arch.capitalize()}, HMMA by HMMA", _lines(hmmas))


def _lines(hmmas: tuple[HmmaStep, ...]) -> list[str]:
    octets = hmmas[0].a_second is not None
    first = "A of X  A of X+4  B    of  " if octets else "A     B     "
    last = "  cycle" if octets else ""
    lines = [f"set k      {first} bits of A     B     C{last}  instruction"]
    for each in hmmas:
        parts = f"{spanned(each.a):6}{spanned(each.b):6}"
        if each.a_second is not None:
            parts = f"{spanned(each.a):8}{spanned(each.a_second):10}{spanned(each.b):5}{each.owner:4}"
        a, b, c = each.bits
        cycle = "" if each.cycle is None else f"{each.cycle:7}"
        lines.append(f"{each.set:3} {spanned(each.k):6} {parts}{a:10} {b:5} {c:5}{cycle}  {each.name}")
    if not octets:
        return [*lines, f"source: {PAPER}; order and registers: ptxas 12.9 for sm_75"]
    return [
        *lines,
        f"X and X+4: groups of four threads, an octet; {sum(hmmas[0].bits)} bits a step, of {PORT_BITS} that registers "
        f"can give in {STEP_CYCLES} cycles",
        f"source: {PAPER}, Fig. 9 (cycles, Titan V), Tables II and III; not of the chip above",
    ]
