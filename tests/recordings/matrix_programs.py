"""Programs about wmma: what the lanes hold after a load, what a store leaves, and products of matrices.

    cd tests
    python -m recordings.matrix_programs programs.json
    python -m recordings.record_programs programs.json matrices_h100.npz

Launches and files are those of `copy_programs`. Elements of sums are small whole numbers, which every order of adding
and every width of an accumulator leaves exact: the recordings say where elements are, not how sums are rounded.
"""

from __future__ import annotations

import itertools
import json
import sys
from dataclasses import dataclass

from recordings.program_text import HEAD, case

SIZE = {
    "f16": 2,
    "bf16": 2,
    "tf32": 4,
    "f32": 4,
    "f64": 8,
    "s8": 1,
    "u8": 1,
    "s4": 0.5,
    "u4": 0.5,
    "b1": 0.125,
    "s32": 4,
}
"""Bytes of an element."""

WHOLE = ("m16n16k16", "m8n32k16", "m32n8k16")
BYTES = 16 << 10
"""Bytes of every buffer."""


@dataclass(frozen=True)
class Product:
    """One combination of shape and types: element types of A and B, C, D, and registers of each fragment."""

    shape: str
    element: str
    c: str
    d: str
    counts: tuple[int, int, int, int]

    @property
    def types(self) -> str:
        """The types as wmma.mma names them."""
        return f"{self.d}.{self.c}" if self.element == "f16" else f"{self.d}.{self.element}.{self.element}.{self.c}"

    @property
    def layouts(self) -> list[tuple[str, str]]:
        """Layouts of A and B that the types allow."""
        if SIZE[self.element] < 1:
            return [("row", "col")]
        return list(itertools.product(("row", "col"), repeat=2))

    def kind(self, name: str) -> str:
        """Element type of a matrix."""
        return {"a": self.element, "b": self.element, "c": self.c, "d": self.d}[name]

    def count(self, name: str) -> int:
        """Registers of a fragment."""
        return self.counts["abcd".index(name)]


def products() -> list[Product]:
    """Every shape and type of a dense wmma."""
    sums = {"f16": 4, "f32": 8}
    found = [Product(shape, "f16", c, d, (8, 8, sums[c], sums[d])) for shape in WHOLE for c in sums for d in sums]
    sides = {"m16n16k16": (4, 4), "m8n32k16": (2, 8), "m32n8k16": (8, 2)}
    for shape, (a, b) in sides.items():
        found.append(Product(shape, "bf16", "f32", "f32", (a, b, 8, 8)))
        found += [Product(shape, kind, "s32", "s32", (a // 2, b // 2, 8, 8)) for kind in ("s8", "u8")]
    found.append(Product("m16n16k8", "tf32", "f32", "f32", (4, 4, 8, 8)))
    found.append(Product("m8n8k4", "f64", "f64", "f64", (1, 1, 2, 2)))
    found += [Product("m8n8k32", kind, "s32", "s32", (1, 1, 2, 2)) for kind in ("s4", "u4")]
    found.append(Product("m8n8k128", "b1", "s32", "s32", (1, 1, 2, 2)))
    return found


def register(kind: str) -> str:
    """Type of the registers that hold elements of a type."""
    return {"f64": "f64", "f32": "f32"}.get(kind, "b32")


def vector(name: str, count: int) -> str:
    """A fragment's registers."""
    return "{" + ", ".join(f"%{name}{i}" for i in range(count)) + "}"


def kernel(body: str, kinds: dict[str, tuple[str, int]]) -> str:
    """A kernel with pointers %src and %out, numbers %n0 and %n1, %lane, %near (shared) and fragments by name."""
    declared = [f".reg .{register(kind)} %{name}<{count}>;" for name, (kind, count) in kinds.items()]
    return (
        HEAD + ".visible .entry k(.param .u64 src, .param .u64 out, .param .u32 num0, .param .u32 num1)\n{\n"
        ".reg .b64 %src, %out, %at; .reg .b32 %n0, %n1, %lane, %near, %word, %to; .reg .pred %p;\n"
        + "\n".join(declared)
        + "\nld.param.u64 %src, [src]; ld.param.u64 %out, [out]; ld.param.u32 %n0, [num0]; ld.param.u32 %n1, [num1];\n"
        f"cvta.to.global.u64 %src, %src; cvta.to.global.u64 %out, %out; mov.u32 %lane, %tid.x; mov.b32 %near, smem;\n"
        f"{body}\nret;\n}}\n"
    )


def each_register(operation: str, kind: str, name: str, count: int) -> str:
    """Every lane loads its fragment from %src or stores it to %out, register by register."""
    width = 8 if kind == "f64" else 4
    pointer = "%src" if operation == "ld" else "%out"
    lines = [f"mul.wide.u32 %at, %lane, {width * count}; add.u64 %at, %at, {pointer};"]
    for i in range(count):
        place, value = f"[%at+{width * i}]", f"%{name}{i}"
        operands = f"{value}, {place}" if operation == "ld" else f"{place}, {value}"
        lines.append(f"{operation}.global.{register(kind)} {operands};")
    return "\n".join(lines)


def into_shared(size: int) -> str:
    """Copy the first bytes of %src into shared memory, a word at a time."""
    return (
        f"mov.u32 %to, %lane;\nL: mul.wide.u32 %at, %to, 4; add.u64 %at, %at, %src; ld.global.b32 %word, [%at];\n"
        "shl.b32 %word, %word, 0; { .reg .b32 %a; shl.b32 %a, %to, 2; add.u32 %a, %a, %near; "
        "st.shared.b32 [%a], %word; }\n"
        f"add.u32 %to, %to, 32; setp.lt.u32 %p, %to, {size // 4}; @%p bra L; bar.warp.sync -1;\n"
    )


def launched(name: str, text: str, kind: str, stride: int, offset: int) -> dict:
    """One program with its buffers."""
    seed = sum(map(ord, name))
    buffers = {"src": (kind, seed, BYTES), "out": ("cd", 0, BYTES)}
    return case(name, text, buffers, (), [stride, offset], shared=BYTES + 64)


def stride_of(kind: str, length: int, wide: bool) -> int:
    """A leading dimension: the least, or one with a gap that the alignment of rows allows."""
    return length + (int(32 / SIZE[kind]) if wide else 0)


def extents(shape: str) -> tuple[int, int, int]:
    """(m, n, k)."""
    m, rest = shape[1:].split("n")
    n, k = rest.split("k")
    return int(m), int(n), int(k)


def length_of(shape: str, name: str, layout: str) -> int:
    """Elements of a row or column of a matrix, as it lies in memory."""
    m, n, k = extents(shape)
    rows, columns = {"a": (m, k), "b": (k, n)}.get(name, (m, n))
    return columns if layout == "row" else rows


def fragments() -> list[dict]:
    """Loads of every matrix, from global and shared memory; stores of D."""
    found = []
    seen = set()
    for product, name in itertools.product(products(), "abcd"):
        kind, count = product.kind(name), product.count(name)
        if (product.shape, name, kind) in seen:
            continue
        seen.add((product.shape, name, kind))
        layouts = ("row", "col")
        if SIZE[kind] < 1:
            layouts = ("row",) if name == "a" else ("col",)
        for layout, space, wide in itertools.product(layouts, ("global", "shared"), (False, True)):
            head = f"sync.aligned.{layout}.{product.shape}.{space}.{kind}"
            stride = stride_of(kind, length_of(product.shape, name, layout), wide)
            registers = {name: (kind, count)}
            title = f"{name} {product.shape} {kind} {layout} {space} {stride}"
            where = "%src" if space == "global" else "%near"
            if name != "d":
                body = into_shared(BYTES) if space == "shared" else ""
                body += f"wmma.load.{name}.{head} {vector(name, count)}, [{where}], %n0;\n"
                found.append(
                    launched(
                        f"load {title}", kernel(body + each_register("st", kind, name, count), registers), "bits",
                        stride, 0,
                    )
                )  # fmt: skip
            elif space == "global":
                body = each_register("ld", kind, name, count)
                body += f"\nwmma.store.d.{head} [%out], {vector(name, count)}, %n0;"
                found.append(launched(f"store {title}", kernel(body, registers), "bits", stride, 0))
    return found


def sums() -> list[dict]:
    """Products of matrices that were loaded, and of registers that hold anything (copies that disagree included)."""
    found = []
    for product in products():
        kinds = {name: (product.kind(name), product.count(name)) for name in "abcd"}
        variants = [""]
        if product.element in ("s8", "u8", "s4", "u4"):
            variants = ["", ".satfinite"]
        if product.element == "f64":
            variants = ["", ".rn", ".rz", ".rm", ".rp"]
        if product.element == "b1":
            variants = [".and.popc", ".xor.popc"]
        for (a, b), variant, loaded in itertools.product(product.layouts, variants, (True, False)):
            body = "\n".join(load_all(product, a, b) if loaded else [raw(product, name) for name in "abc"])
            parts = ["wmma.mma"]
            after = product.shape
            types = product.types
            if product.element == "f64":
                after += variant
            elif product.element == "b1":
                parts[0] += variant
            else:
                types += variant
            head = f"{parts[0]}.sync.aligned.{a}.{b}.{after}.{types}"
            operands = ", ".join(vector(name, product.count(name)) for name in "dabc")
            width = length_of(product.shape, "d", "row")
            body += f"\n{head} {operands};\n"
            body += f"wmma.store.d.sync.aligned.row.{product.shape}.global.{product.d} [%out], "
            body += f"{vector('d', product.count('d'))}, {width};"
            title = f"mma {head} {'loaded' if loaded else 'raw'}"
            found.append(launched(title, kernel(body, kinds), f"small {product.element} {product.c}", 0, 0))
    return found


def load_all(product: Product, a: str, b: str) -> list[str]:
    """Load A, B and C from 0, 4 and 8 KiB; C's half of the buffer has numbers of its type."""
    lines = []
    for name, layout in (("a", a), ("b", b), ("c", "row")):
        kind, count = product.kind(name), product.count(name)
        head = f"wmma.load.{name}.sync.aligned.{layout}.{product.shape}.global.{kind}"
        place = {"a": 0, "b": BYTES // 4, "c": BYTES // 2}[name]
        lines.append(f"{head} {vector(name, count)}, [%src+{place}], {length_of(product.shape, name, layout)};")
    return lines


def raw(product: Product, name: str) -> str:
    """Every lane loads registers of its own, as no wmma.load deals them."""
    place = {"a": 0, "b": BYTES // 4, "c": BYTES // 2}[name]
    text = each_register("ld", product.kind(name), name, product.count(name))
    return f"add.u64 %src, %src, {place};\n{text}\nsub.u64 %src, %src, {place};"


def alignments() -> list[dict]:
    """Starts and strides that are no multiple of the fragment's size, in both spaces."""
    found = []
    for product, space in itertools.product(products(), ("global", "shared")):
        if product.c != "f32" and product.element not in ("s8", "s4", "b1", "f64", "f16"):
            continue
        if product.d != product.c:
            continue
        for name, layout in itertools.product("abc", ("row", "col")):
            kind, count = product.kind(name), product.count(name)
            if SIZE[kind] < 1 and layout != ("row" if name == "a" else "col"):
                continue
            length = length_of(product.shape, name, layout)
            unit = max(1, int(1 / SIZE[kind]))
            steps = [step for step in (1, 2, 4, 8, 16) if step >= SIZE[kind]]
            pairs = [(step, 0) for step in steps] + [(0, int(step / SIZE[kind])) for step in steps]
            for offset, gap in pairs:
                if gap % unit:
                    continue
                title = f"align {name} {product.shape} {kind} {layout} {space} +{offset} stride +{gap}"
                where = "%src" if space == "global" else "%near"
                move = "cvt.u64.u32 %at, %n1; add.u64 %src, %src, %at; add.u32 %near, %near, %n1;\n"
                body = (into_shared(BYTES) if space == "shared" else "") + move
                head = f"wmma.load.{name}.sync.aligned.{layout}.{product.shape}.{space}.{kind}"
                body += f"{head} {vector(name, count)}, [{where}], %n0;\n" + each_register("st", kind, name, count)
                text = kernel(body, {name: (kind, count)})
                found.append(launched(title, text, "bits", length + gap, offset))
    return found


def programs() -> list[dict]:
    """All programs, without repetition."""
    found = {each["name"]: each for each in [*fragments(), *sums(), *alignments()]}
    return list(found.values())


if __name__ == "__main__":
    with open(sys.argv[1], "w") as file:
        json.dump(programs(), file)
    print(len(programs()), "programs")
