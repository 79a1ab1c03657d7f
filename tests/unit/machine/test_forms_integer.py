"""Integer, bit and comparison forms against plain Python integers."""

from __future__ import annotations

import pytest
from support.forms import Form, check, evaluate, sample

M16, M32, M64 = (1 << 16) - 1, (1 << 32) - 1, (1 << 64) - 1


def s(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> (bits - 1) & 1 else value


def clamp(value: int, bits: int) -> int:
    return max(-(1 << (bits - 1)), min((1 << (bits - 1)) - 1, value))


def pairwise(function):
    def run(a, b):
        low = function(a & M16, b & M16) & M16
        return (function(a >> 16, b >> 16) & M16) << 16 | low

    return run


def bfe(bits, is_signed):
    """The manual's program for bfe, bit by bit."""

    def run(a, b, c):
        pos, length = b & 255, c & 255
        sign = 0 if not is_signed or length == 0 else a >> min(pos + length - 1, bits - 1) & 1
        d = 0
        for i in range(bits):
            bit = a >> (pos + i) & 1 if i < length and pos + i < bits else sign
            d |= bit << i
        return d

    return run


def bfi(bits):
    def run(a, b, c, e):
        pos, length, f = c & 255, e & 255, b
        for i in range(length):
            if pos + i < bits:
                f = f & ~(1 << (pos + i)) | (a >> i & 1) << (pos + i)
        return f

    return run


def bfind(bits, is_signed, shift):
    def run(a):
        if is_signed and a >> (bits - 1):
            a = ~a & (1 << bits) - 1
        if a == 0:
            return M32
        top = a.bit_length() - 1
        return bits - 1 - top if shift else top

    return run


def dp4a(x_signed, y_signed):
    def run(a, b, c):
        total = c
        for i in range(4):
            x, y = a >> 8 * i & 255, b >> 8 * i & 255
            total += (s(x, 8) if x_signed else x) * (s(y, 8) if y_signed else y)
        return total & M32

    return run


def dp2a(high, x_signed, y_signed):
    def run(a, b, c):
        total = c
        for i in range(2):
            x, y = a >> 16 * i & M16, b >> 8 * (i + 2 * high) & 255
            total += (s(x, 16) if x_signed else x) * (s(y, 8) if y_signed else y)
        return total & M32

    return run


def vabsdiff(parts, d_type, a_type, b_type, more):
    bits = 32 // parts

    def run(a, b, c):
        total = []
        for i in range(parts):
            x, y = a >> bits * i & (1 << bits) - 1, b >> bits * i & (1 << bits) - 1
            total.append(abs((s(x, bits) if a_type == "s" else x) - (s(y, bits) if b_type == "s" else y)))
        if more == ".add":
            return (c + sum(total)) & M32
        if more == ".sat":
            total = [min(part, (1 << bits - (d_type == "s")) - 1) for part in total]
        return sum((part & (1 << bits) - 1) << bits * i for i, part in enumerate(total))

    return run


def lop3(table):
    def run(a, b, c):
        d = 0
        for i in range(32):
            index = (a >> i & 1) << 2 | (b >> i & 1) << 1 | c >> i & 1
            d |= (table >> index & 1) << i
        return d

    return run


def prmt(mode):
    def run(a, b, c):
        both = [(b << 32 | a) >> 8 * i & 255 for i in range(8)]
        k = c & 3
        pick = {
            "f4e": [k, k + 1, k + 2, k + 3],
            "b4e": [k, k - 1, k - 2, k - 3],
            "rc8": [k] * 4,
            "ecl": [max(k, i) for i in range(4)],
            "ecr": [min(k, i) for i in range(4)],
            "rc16": [2 * (k & 1), 2 * (k & 1) + 1] * 2,
        }
        d = 0
        for i in range(4):
            if mode:
                byte = both[pick[mode][i] % 8]
            else:
                selector = c >> 4 * i & 15
                byte = both[selector & 7]
                if selector & 8:
                    byte = 255 if byte & 128 else 0
            d |= byte << 8 * i
        return d

    return run


def shf(left, wrap):
    def run(a, b, c):
        n = c & 31 if wrap else min(c, 32)
        both = b << 32 | a
        return both << n >> 32 & M32 if left else both >> n & M32

    return run


def part24(v, is_signed):
    return s(v & 0xFFFFFF, 24) if is_signed else v & 0xFFFFFF


def fns(mask, base, offset):
    base, offset = base & 31, s(offset, 32)
    if offset == 0:
        return base if mask >> base & 1 else M32
    places = range(base, 32) if offset > 0 else range(base, -1, -1)
    ones = [i for i in places if mask >> i & 1]
    return ones[abs(offset) - 1] if len(ones) >= abs(offset) else M32


def szext(is_signed, wrap):
    def run(a, b):
        n = b & 31 if wrap else min(b, 32)
        low = a & (1 << n) - 1
        return s(low, n) & M32 if is_signed and n else low

    return run


def bmsk(wrap):
    def run(a, b):
        a, b = (a & 31, b & 31) if wrap else (min(a, 32), min(b, 32))
        return ((1 << b) - 1) << a & M32

    return run


def quotient(is_signed, bits, remainder):
    """Towards zero; all ones of a division by zero."""

    def run(a, b):
        if b == 0:
            return (1 << bits) - 1
        x, y = (s(a, bits), s(b, bits)) if is_signed else (a, b)
        whole = abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
        return (x - whole * y if remainder else whole) & (1 << bits) - 1

    return run


TWO, THREE = "b32 b32", "b32 b32 b32"
CASES = [
    (Form("add.sat.s32 {d}, {a}, {b};", TWO, "b32"), lambda a, b: clamp(s(a, 32) + s(b, 32), 32) & M32),
    (Form("sub.sat.s32 {d}, {a}, {b};", TWO, "b32"), lambda a, b: clamp(s(a, 32) - s(b, 32), 32) & M32),
    (Form("add.u16x2 {d}, {a}, {b};", TWO, "b32"), pairwise(lambda a, b: a + b)),
    (Form("min.s16x2 {d}, {a}, {b};", TWO, "b32"), pairwise(lambda a, b: min(a, b, key=lambda v: s(v, 16)))),
    (Form("max.u16x2 {d}, {a}, {b};", TWO, "b32"), pairwise(max)),
    (Form("max.relu.s16x2 {d}, {a}, {b};", TWO, "b32"), pairwise(lambda a, b: max(s(a, 16), s(b, 16), 0))),
    (Form("min.relu.s32 {d}, {a}, {b};", TWO, "b32"), lambda a, b: max(min(s(a, 32), s(b, 32)), 0)),
    (Form("mad.hi.sat.s32 {d}, {a}, {b}, {c};", THREE, "b32"),
     lambda a, b, c: clamp((s(a, 32) * s(b, 32) >> 32) + s(c, 32), 32) & M32),
    (Form("mul24.lo.u32 {d}, {a}, {b};", TWO, "b32"), lambda a, b: part24(a, 0) * part24(b, 0) & M32),
    (Form("mul24.hi.s32 {d}, {a}, {b};", TWO, "b32"), lambda a, b: part24(a, 1) * part24(b, 1) >> 16 & M32),
    (Form("mad24.lo.s32 {d}, {a}, {b}, {c};", THREE, "b32"), lambda a, b, c: part24(a, 1) * part24(b, 1) + c & M32),
    (Form("mad24.hi.sat.s32 {d}, {a}, {b}, {c};", THREE, "b32"),
     lambda a, b, c: clamp(s(part24(a, 1) * part24(b, 1) >> 16 & M32, 32) + s(c, 32), 32) & M32),
    (Form("sad.s32 {d}, {a}, {b}, {c};", THREE, "b32"), lambda a, b, c: abs(s(a, 32) - s(b, 32)) + c & M32),
    (Form("sad.u64 {d}, {a}, {b}, {c};", "b64 b64 b64", "b64"), lambda a, b, c: abs(a - b) + c & M64),
    (Form("abs.s64 {d}, {a};", "b64", "b64"), lambda a: abs(s(a, 64)) & M64),
    (Form("neg.s16 {d}, {a};", "b16", "b16"), lambda a: -a & M16),
    (Form("popc.b32 {d}, {a};", "b32", "b32"), lambda a: a.bit_count()),
    (Form("popc.b64 {d}, {a};", "b64", "b32"), lambda a: a.bit_count()),
    (Form("clz.b32 {d}, {a};", "b32", "b32"), lambda a: 32 - a.bit_length()),
    (Form("clz.b64 {d}, {a};", "b64", "b32"), lambda a: 64 - a.bit_length()),
    (Form("brev.b32 {d}, {a};", "b32", "b32"), lambda a: int(f"{a:032b}"[::-1], 2)),
    (Form("brev.b64 {d}, {a};", "b64", "b64"), lambda a: int(f"{a:064b}"[::-1], 2)),
    *[(Form(f"bfind{'.shiftamt' * shift}.{k}{n} {{d}}, {{a}};", f"b{n}", "b32"), bfind(n, k == "s", shift))
      for shift in (0, 1) for k in "us" for n in (32, 64)],
    (Form("fns.b32 {d}, {a}, {b}, {c};", THREE, "b32"), None),
    *[(Form(f"bmsk.{m}.b32 {{d}}, {{a}}, {{b}};", TWO, "b32"), bmsk(m == "wrap")) for m in ("clamp", "wrap")],
    *[(Form(f"szext.{m}.{k}32 {{d}}, {{a}}, {{b}};", TWO, "b32"), szext(k == "s", m == "wrap"))
      for m in ("clamp", "wrap") for k in "us"],
    *[(Form(f"dp4a.{x}32.{y}32 {{d}}, {{a}}, {{b}}, {{c}};", THREE, "b32"), dp4a(x == "s", y == "s"))
      for x in "us" for y in "us"],
    *[(Form(f"dp2a.{h}.{x}32.{y}32 {{d}}, {{a}}, {{b}}, {{c}};", THREE, "b32"), dp2a(h == "hi", x == "s", y == "s"))
      for h in ("lo", "hi") for x in "us" for y in "us"],
    *[(Form(f"vabsdiff2.{d}32.{x}32.{y}32{m} {{d}}, {{a}}, {{b}}, {{c}};", THREE, "b32"), vabsdiff(2, d, x, y, m))
      for d in "us" for x in "us" for y in "us" for m in ("", ".sat", ".add")],
    *[(Form(f"vabsdiff4.{d}32.{x}32.{y}32{m} {{d}}, {{a}}, {{b}}, {{c}};", THREE, "b32"), vabsdiff(4, d, x, y, m))
      for d in "us" for x in "us" for y in "us" for m in ("", ".sat", ".add")],
    *[(Form(f"lop3.b32 {{d}}, {{a}}, {{b}}, {{c}}, {table};", THREE, "b32"), lop3(table))
      for table in (0, 0x96, 0xE8, 0x1B, 0xFF)],
    (Form("lop3.or.b32 {d}|{q}, {a}, {b}, {c}, 0x80, {e};", THREE + " pred", "b32"),
     lambda a, b, c, e: (a & b & c, int(bool(a & b & c) or bool(e)))),
    (Form("lop3.and.b32 {d}|{q}, {a}, {b}, {c}, 0xfe, !{e};", THREE + " pred", "b32"),
     lambda a, b, c, e: (a | b | c, int(bool(a | b | c) and not e))),
    *[(Form(f"shf.{d}.{m}.b32 {{d}}, {{a}}, {{b}}, {{c}};", THREE, "b32"), shf(d == "l", m == "wrap"))
      for d in "lr" for m in ("wrap", "clamp")],
    *[(Form(f"prmt.b32{'.' * bool(m)}{m} {{d}}, {{a}}, {{b}}, {{c}};", THREE, "b32"), prmt(m))
      for m in ("", "f4e", "b4e", "rc8", "ecl", "ecr", "rc16")],
    *[(Form(f"{op}.{k}{n} {{d}}, {{a}}, {{b}};", f"b{n} b{n}", f"b{n}"), quotient(k == "s", n, op == "rem"))
      for op in ("div", "rem") for k in "us" for n in (32, 64)],
    (Form("cnot.b64 {d}, {a};", "b64", "b64"), lambda a: int(a == 0)),
    (Form("and.pred {d}, !{a}, {b};", "pred pred", "pred"), lambda a, b: (1 - a) & b),
    (Form("selp.b32 {d}, {a}, {b}, !{c};", "b32 b32 pred", "b32"), lambda a, b, c: b if c else a),
    (Form("slct.b64.s32 {d}, {a}, {b}, {c};", "b64 b64 b32", "b64"), lambda a, b, c: a if s(c, 32) >= 0 else b),
    (Form("set.lt.u32.s32 {d}, {a}, {b};", TWO, "b32"), lambda a, b: M32 * (s(a, 32) < s(b, 32))),
    (Form("set.hi.and.f32.u32 {d}, {a}, {b}, {c};", "b32 b32 pred", "b32"),
     lambda a, b, c: 0x3F800000 if a > b and c else 0),
    (Form("setp.ge.xor.s64 {d}|{q}, {a}, {b}, !{c};", "b64 b64 pred", "pred"),
     lambda a, b, c: (int((s(a, 64) >= s(b, 64)) != (not c)), int((s(a, 64) < s(b, 64)) != (not c)))),
    (Form("mov.b128 {d}, {a};", "b128", "b128"), lambda a: a),
    (Form("{{ .reg .b64 %x, %y; mov.b128 {{%x, %y}}, {a}; mov.b128 {d}, {{%y, %x}}; }}", "b128", "b128"),
     lambda a: (a & M64) << 64 | a >> 64),
]  # fmt: skip


def small(form: Form) -> list[tuple[int, ...]]:
    """Field positions and lengths around the width, besides anything."""
    values = sample(form, 60)
    near = [tuple(v if i < len(t) - 2 else v % 70 for i, v in enumerate(t)) for t in sample(form, 60, seed=1)]
    return values + near


FIELDS = [
    *[(Form(f"bfe.{k}{n} {{d}}, {{a}}, {{b}}, {{c}};", f"b{n} b32 b32", f"b{n}"), bfe(n, k == "s"))
      for k in "us" for n in (32, 64)],
    *[(Form(f"bfi.b{n} {{d}}, {{a}}, {{b}}, {{c}}, {{e}};", f"b{n} b{n} b32 b32", f"b{n}"), bfi(n)) for n in (32, 64)],
]  # fmt: skip


@pytest.mark.one_of(2)
@pytest.mark.parametrize(("form", "oracle"), CASES, ids=lambda v: v.text if isinstance(v, Form) else "")
def test_integer_form(form, oracle):
    if "fns" in form.text:
        tuples = [(a, b & 31, c) for a, b, c in sample(form)]
        tuples += [(a, b & 31, (c % 9 - 4) & M32) for a, b, c in sample(form, seed=1)]
        check(form, fns, tuples)
        return
    check(form, oracle)


@pytest.mark.parametrize(("form", "oracle"), FIELDS, ids=lambda v: v.text if isinstance(v, Form) else "")
def test_bit_fields(form, oracle):
    check(form, oracle, small(form))


def chain(first: str, then: str, last: str) -> Form:
    """128-bit arithmetic in four steps of 32 bits."""
    lines = "{{ .reg .b32 %x<4>, %y<4>, %z<4>; .reg .b64 %l, %h; mov.b128 {{%l, %h}}, {a}; "
    lines += "mov.b64 {{%x0, %x1}}, %l; mov.b64 {{%x2, %x3}}, %h; mov.b128 {{%l, %h}}, {b}; "
    lines += "mov.b64 {{%y0, %y1}}, %l; mov.b64 {{%y2, %y3}}, %h; "
    for i, name in enumerate((first, then, then, last)):
        lines += f"{name}.u32 %z{i}, %x{i}, %y{i}; "
    lines += "mov.b64 %l, {{%z0, %z1}}; mov.b64 %h, {{%z2, %z3}}; mov.b128 {d}, {{%l, %h}}; }}"
    return Form(lines, "b128 b128", "b128")


PRODUCT = Form(
    "{{ .reg .b32 %x0, %x1, %y0, %y1, %z0, %z1, %z2, %z3; .reg .b64 %l, %h;"
    " mov.b64 {{%x0, %x1}}, {a}; mov.b64 {{%y0, %y1}}, {b};"
    " mul.lo.u32 %z0, %x0, %y0; mul.hi.u32 %z1, %x0, %y0; mov.u32 %z3, 0;"
    " mad.lo.cc.u32 %z1, %x0, %y1, %z1; madc.hi.u32 %z2, %x0, %y1, 0;"
    " mad.lo.cc.u32 %z1, %x1, %y0, %z1; madc.hi.cc.u32 %z2, %x1, %y0, %z2; addc.u32 %z3, 0, 0;"
    " mad.lo.cc.u32 %z2, %x1, %y1, %z2; madc.hi.u32 %z3, %x1, %y1, %z3;"
    " mov.b64 %l, {{%z0, %z1}}; mov.b64 %h, {{%z2, %z3}}; mov.b128 {d}, {{%l, %h}}; }}",
    "b64 b64",
    "b128",
)
CHAINS = [
    (chain("add.cc", "addc.cc", "addc"), lambda a, b: a + b & (1 << 128) - 1),
    (chain("sub.cc", "subc.cc", "subc"), lambda a, b: a - b & (1 << 128) - 1),
    (PRODUCT, lambda a, b: a * b),
]


@pytest.mark.parametrize(("form", "oracle"), CHAINS, ids=["add", "sub", "mad"])
def test_carry_chains(form, oracle):
    full = (1 << 128) - 1
    extra = [(full, 1), (0, 1), (1 << 127, 1 << 127), (full, full)] if form is not PRODUCT else [(M64, M64), (M64, 1)]
    check(form, oracle, extra + sample(form, 60))


def test_a_carry_belongs_to_its_lane():
    """Lanes that part each keep their own carry bit across the other side's chain."""
    text = (
        "{{ .reg .pred %odd; .reg .b32 %t; and.b32 %t, {a}, 1; setp.eq.u32 %odd, %t, 1;"
        " add.cc.u32 %t, {a}, {b}; @%odd add.cc.u32 %t, 0, 0; addc.u32 {d}, 0, 0; }}"
    )
    got = evaluate(Form(text, TWO, "b32"), [(i, M32) for i in range(64)])
    assert got == [int(i % 2 == 0 and i > 0) for i in range(64)]
