"""One PTX instruction at a time: inputs in, results out, for tables of forms.

A form is a text with ``{a} {b} {c} {e}`` for its inputs and ``{d}`` (and ``{q}`` for a predicate) for its results. It
runs twice: with a different input tuple in every thread (arrays in the simulator), and with tuples that are the same in
all threads (plain ints in the simulator).
"""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np

from convc.ir.launch import BufferSpec, LaunchSpec, PointerParam
from convc.machine import run

NAMES = "abcefg"
SIZES = {"pred": 1, "b8": 8, "b16": 16, "b32": 32, "b64": 64, "b128": 128}
DTYPES = {16: np.uint16, 32: np.uint32, 64: np.uint64}
EDGES = {
    16: (0, 1, 2, 0x7FFF, 0x8000, 0xFFFF, 0x3C00, 0xFC00, 0x7C01, 0x0001, 0x8001),
    32: (0, 1, 2, 31, 32, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x3F800000, 0xBF800000, 0x7F800000, 0xFF800000,
         0x7FC00000, 0x00000001, 0x807FFFFF, 0x00800000, 0x7F7FFFFF),
    64: (0, 1, 0x7FFFFFFFFFFFFFFF, 0x8000000000000000, 0xFFFFFFFFFFFFFFFF, 0x3FF0000000000000, 0x7FF0000000000000,
         0xFFF8000000000000, 0x0000000000000001, 0x0010000000000000, 0x7FEFFFFFFFFFFFFF),
}  # fmt: skip
HEAD = ".version 9.0\n.target sm_100a\n.address_size 64\n"


@dataclass(frozen=True)
class Form:
    """A form under test: text, register types of the inputs and of the result (``pred`` too)."""

    text: str
    inputs: str
    result: str
    shared: str = ""

    def kernel(self, uniform: int = 0) -> str:
        """The kernel: one tuple per thread, or ``uniform`` tuples that every thread reads."""
        lines = [
            ".reg .b64 %in, %out, %t; .reg .b32 %id, %seen; .reg .pred %q; .reg .b16 %h;",
            "ld.param.u64 %in, [in]; ld.param.u64 %out, [out]; mov.u32 %id, %tid.x;",
        ]
        if not uniform:
            lines.append(
                f"mul.wide.u32 %t, %id, {self.stride}; add.u64 %in, %in, %t;\n"
                "mul.wide.u32 %t, %id, 16; add.u64 %out, %out, %t;"
            )
        for number in range(max(1, uniform)):
            lines += [f"{{ {self.declarations()}", *self._loads(number), self.instruction(), *self._stores(number), "}"]
        body = "\n".join(lines)
        return f"{HEAD}{self.shared}.visible .entry k(.param .u64 in, .param .u64 out)\n{{\n{body}\nret;\n}}\n"

    @property
    def kinds(self) -> list[str]:
        """Register types of the inputs."""
        return self.inputs.split()

    @property
    def stride(self) -> int:
        """Bytes of one input tuple."""
        return 16 * len(self.kinds)

    def declarations(self) -> str:
        """Registers of the instruction."""
        named = [f".reg .{kind} %{name};" for name, kind in zip(NAMES, self.kinds, strict=False)]
        result = "" if self.result == "pred" else f".reg .{self.result} %d; "
        return f"{result}.reg .pred %p, %q; " + " ".join(named)

    def instruction(self) -> str:
        """The instruction itself."""
        names = {name: f"%{name}" for name in NAMES}
        return self.text.format(d="%p" if self.result == "pred" else "%d", q="%q", **names)

    def _loads(self, number: int) -> list[str]:
        lines = []
        for i, (name, kind) in enumerate(zip(NAMES, self.kinds, strict=False)):
            at = number * self.stride + 16 * i
            if kind == "pred":
                lines.append(f"ld.global.b32 %seen, [%in+{at}]; setp.ne.u32 %{name}, %seen, 0;")
            else:
                lines.append(f"ld.global.{kind} %{name}, [%in+{at}];")
        return lines

    def _stores(self, number: int) -> list[str]:
        at = 16 * number
        second = []
        if "{q}" in self.text:
            second = [f"selp.b32 %seen, 1, 0, %q; st.global.b32 [%out+{at + 8}], %seen;"]
        if self.result == "pred":
            return [f"selp.b32 %seen, 1, 0, %p; st.global.b32 [%out+{at}], %seen;", *second]
        return [f"st.global.{self.result} [%out+{at}], %d;", *second]


def evaluate(form: Form, tuples: list[tuple[int, ...]], *, uniform: bool = False, threads: int = 0) -> list:
    """Results of a form for input tuples of bit patterns; pairs (d, q) where it has a second result."""
    rows = np.zeros((len(tuples), len(form.kinds), 2), np.uint64)
    for i, values in enumerate(tuples):
        for j, value in enumerate(values):
            rows[i, j] = value & (1 << 64) - 1, value >> 64
    out = np.zeros((len(tuples), 2), np.uint64)
    threads = 32 if uniform else threads or len(tuples)
    buffers = {
        "in": BufferSpec(dtype="u64", shape=(max(1, rows.size),)),
        "out": BufferSpec(dtype="u64", shape=(out.size,)),
    }
    launch = LaunchSpec(
        entry="k",
        grid=(1, 1, 1),
        block=(threads, 1, 1),
        buffers=buffers,
        params=(PointerParam(buffer="in"), PointerParam(buffer="out")),
        shared_bytes=0,
    )
    given = {"in": rows.reshape(-1) if rows.size else np.zeros(1, np.uint64), "out": out.reshape(-1)}
    result = run(form.kernel(len(tuples) if uniform else 0), launch, given)
    words = result.buffers["out"].reshape(-1, 2)
    bits = SIZES[form.result]
    values = [int(w[0]) | (int(w[1]) << 64 if bits > 64 else 0) for w in words]
    values = [v & (1 << bits) - 1 for v in values]
    if "{q}" in form.text:
        return [(v, int(w[1])) for v, w in zip(values, words, strict=True)]
    return values


def sample(form: Form, count: int = 96, seed: int = 0) -> list[tuple[int, ...]]:
    """Random input tuples, half of their values edges."""
    rng = random.Random(f"{form.text}{seed}")

    def one(kind: str) -> int:
        bits = SIZES[kind]
        if bits == 1:
            return rng.randrange(2)
        if bits in EDGES and rng.random() < 0.4:
            return rng.choice(EDGES[bits])
        return rng.getrandbits(bits) >> rng.choice((0, 0, 0, bits // 2, bits - 5))

    return [tuple(one(kind) for kind in form.kinds) for _ in range(count)]


def check(form: Form, oracle, tuples: list[tuple[int, ...]] | None = None) -> None:
    """The form agrees with ``oracle(*ints)``, as arrays and as ints."""
    tuples = sample(form) if tuples is None else tuples
    expected = [oracle(*values) for values in tuples]
    got = evaluate(form, tuples)
    wrong = [(t, hexed(g), hexed(w)) for t, g, w in zip(tuples, got, expected, strict=True) if g != w]
    assert not wrong, (
        f"{form.text}: {len(wrong)} of {len(tuples)} wrong: {[list(map(hex, wrong[0][0])), *wrong[0][1:]]}"
    )
    few = tuples[:12]
    assert evaluate(form, few, uniform=True) == expected[:12], f"{form.text}: ints and arrays differ"


def hexed(value):
    """A result for messages."""
    return tuple(hex(v) for v in value) if isinstance(value, tuple) else hex(value)


def batch(forms: list[Form]) -> str:
    """One kernel with every form in it, for the assembler."""
    parts = [
        "{ "
        + f.declarations()
        + " "
        + "\n".join(f._loads(0))
        + "\n"
        + f.instruction()
        + " "
        + " ".join(f._stores(0))
        + " }"
        for f in forms
    ]
    shared = "".join(sorted({f.shared for f in forms}))
    return (
        f"{HEAD}{shared}.visible .entry k(.param .u64 in, .param .u64 out)\n{{\n"
        ".reg .b64 %in, %out, %t; .reg .b32 %id, %seen; .reg .pred %q; .reg .b16 %h;\n"
        "ld.param.u64 %in, [in]; ld.param.u64 %out, [out];\n" + "\n".join(parts) + "\nret;\n}\n"
    )
