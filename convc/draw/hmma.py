"""HMMA of Volta and Turing: the sets and steps of a wmma m16n16k16, and who holds its matrices, there and here.

Cells have colours by groups of four threads, those of an octet being X and X + 4; steps have colours by sets. The
simulator's own fragments, which are those of sm_75 and later, stand below those of Volta.
"""

from __future__ import annotations

from convc.atoms.families import find_atom
from convc.atoms.held import Atom
from convc.atoms.hmma import GROUP, PAPER, PORT_BITS, STEP_CYCLES, HmmaStep, fragments, spanned, steps
from convc.draw.atoms import notation, table
from convc.draw.cells import Cells, Placed
from convc.draw.crossing import GAP, crossing
from convc.draw.svg import MARGIN, TINTS, TITLE, Picture, titled

HEADINGS = ("A: m down, k across", "B: k down, n across", "D: m down, n across")


def hmma_picture(arch: str, sums: str = "f32") -> Picture:
    """Draw the steps of a wmma m16n16k16 of f16 and its fragments.

    Args:
        arch: volta or turing.
        sums: f32 or f16.

    Raises:
        InputError: there is no such architecture or type of sums.
    """
    found = steps(arch, sums)
    atom = fragments(arch, sums)
    tables = [Placed(table=_steps(found), x=MARGIN, y=TITLE + GAP, heading="HMMAs in order")]
    tables += _product(atom, tables[-1].end + 2 * GAP, arch.capitalize())
    notes = [*_sources(arch, found), *notation(atom), f"registers: {atom.source}"]
    if arch == "volta":
        here = find_atom("wmma.m16n16k16.f16")
        tables += _product(here, tables[-1].end + 2 * GAP, "Simulator")
        notes.append("simulator: wmma.load gives the registers of sm_75 and later, as recorded on an H100:")
        notes += notation(here)
        notes.append("four mma.m8n8k4 of the simulator, one a set, on Volta's registers make the same product")
    right = max(each.right for each in tables)
    title = f"wmma m16n16k16 of f16 with {sums} sums on {arch.capitalize()}: sets and steps of HMMA"
    return titled(title, right + MARGIN, tables[-1].end + MARGIN + 8, [each.svg() for each in tables], notes)


def _product(atom: Atom, top: float, whose: str) -> list[Placed]:
    """A, B and D, coloured by groups of threads."""
    a, b, d = (table(held, turned=held.name == "B", band=GROUP, name=f"{whose} {held.name}") for held in atom)
    headings = tuple(f"{whose}, {heading}" for heading in HEADINGS)
    return crossing(a, b, d, (headings[0], headings[1], headings[2]), top)


def _steps(found: tuple[HmmaStep, ...]) -> Cells:
    octets = found[0].a_second is not None
    heads = ["k", "A of X" if octets else "A", *(["A of X+4"] if octets else []), "B", *(["B in"] if octets else [])]
    heads += ["A bits", "B bits", "C bits", *(["cycle"] if found[0].cycle is not None else [])]

    def words(each: HmmaStep) -> list[str]:
        second = [] if each.a_second is None else [f"m {spanned(each.a_second)}"]
        own = [spanned(each.k), f"m {spanned(each.a)}", *second, f"n {spanned(each.b)}"]
        own += [each.owner] if each.owner else []
        return [*own, *map(str, each.bits), *([] if each.cycle is None else [str(each.cycle)])]

    return Cells(
        name="steps",
        words=[words(each) for each in found],
        kinds=lambda row, column: TINTS[found[row].set - 1],
        row_heads=[f"set {each.set} {each.name}" for each in found],
        column_heads=heads,
    )


def _sources(arch: str, found: tuple[HmmaStep, ...]) -> list[str]:
    """What the columns of the steps are, and where each is from."""
    bits = sum(found[0].bits)
    if arch == "turing":
        return [
            f"sets: {PAPER}; their order and registers: ptxas 12.9 for sm_75; the simulator's wmma.load gives the same",
            f"bits that the warp reads in an HMMA: counted from its operands, {bits} in all",
        ]
    return [
        f"sets, steps, octets: {PAPER}, Fig. 9 and 10, Table II and III; rows m and columns n are those of an octet",
        f"cycle: from the first HMMA to the end of the step, on a Titan V ({PAPER}, Fig. 9)",
        f"bits that the warp reads in a step: counted from the parts of Table III, {bits} in all; registers could give "
        f"{PORT_BITS} in the {STEP_CYCLES} cycles of a step ({PAPER}), and B goes to both groups of an octet",
    ]
