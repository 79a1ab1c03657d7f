"""alloca, stacksave and stackrestore: each thread takes from its own stack, and functions give back what they took."""

from __future__ import annotations

import numpy as np
import pytest
from support.kernels import execute, module

from convc.errors import MachineFault, PtxSyntaxError
from convc.machine.execute.stack import STACK_BYTES

TYPES = pytest.mark.parametrize("bits", [32, 64])
STORE = "cvt.u64.u32 %o, %t; shl.b64 %o, %o, 3; add.u64 %p_out, %p_out, %o; st.global.v2.u32 [%p_out], {{%v, %w}};"
HEAD = (
    ".reg .b32 %t, %n, %v, %w; .reg .b64 %o; .reg .b{bits} %a, %s, %b, %c, %size; .reg .pred %p;\nmov.u32 %t, %tid.x;"
)


def run(body: str, bits: int = 64, functions: str = "") -> np.ndarray:
    text = module(f"{HEAD}\n{body}\n{STORE}".format(bits=bits).replace("; ", ";\n"))
    text = text.replace(".visible", functions + ".visible", 1)
    return execute(text, {"out": np.zeros((64, 2), np.uint32)}, block=(64, 1, 1)).buffers["out"]


@TYPES
def test_every_thread_takes_what_it_asks_for(bits):
    out = run(
        "add.u32 %n, %t, 1; shl.b32 %n, %n, 2; cvt.u{bits}.u32 %size, %n; mov.u32 %w, 0;"
        "alloca.u{bits} %a, %size, 32; alloca.u{bits} %b, 16; st.local.u32 [%b], 1000; mov.u{bits} %c, %a;"
        "W: st.local.u32 [%c], %t; add.u{bits} %c, %c, 4; sub.u32 %n, %n, 4; setp.ne.u32 %p, %n, 0; @%p bra W;"
        "ld.local.u32 %v, [%b]; add.u{bits} %c, %c, -4; ld.local.u32 %w, [%c];",
        bits,
    )
    assert out[:, 0].tolist() == [1000] * 64
    assert out[:, 1].tolist() == list(range(64))


@TYPES
@pytest.mark.parametrize("align", [1, 8, 64, 256])
def test_addresses_are_aligned(bits, align):
    out = run(
        f"alloca.u{{bits}} %a, 3; alloca.u{{bits}} %b, 3, {align}; cvt.u32.u{{bits}} %v, %a; cvt.u32.u{{bits}} %w, %b;",
        bits,
    )
    least = max(align, 8)
    assert (out[0] % [8, least]).tolist() == [0, 0]
    assert out[0, 0] + 3 <= out[0, 1] < out[0, 0] + 3 + least


@TYPES
def test_what_a_thread_has_restored_it_gets_again(bits):
    out = run(
        "stacksave.u{bits} %s; alloca.u{bits} %a, 64; setp.gt.u32 %p, %t, 9;"
        "@%p stackrestore.u{bits} %s; alloca.u{bits} %b, 64; cvt.u32.u{bits} %v, %a; cvt.u32.u{bits} %w, %b;",
        bits,
    )
    assert (out[:10, 1] == out[:10, 0] + 64).all()
    assert (out[10:, 1] == out[10:, 0]).all()


FUNCTION = """.func (.reg .b32 %r) twice(.reg .b32 %x)
{
.reg .b64 %a;
.reg .pred %p;
alloca.u64 %a, 1024;
st.local.u32 [%a], %x;
setp.lt.u32 %p, %x, 5;
@%p ret;
ld.local.u32 %r, [%a];
add.u32 %r, %r, %r;
ret;
}
"""


def test_a_function_gives_back_what_it_took():
    """Called so often that the stack would not do otherwise."""
    calls = "mov.u32 %n, 0; L: call (%v), twice, (%t); add.u32 %n, %n, 1; setp.lt.u32 %p, %n, 40; @%p bra L;"
    out = run(f"{calls} alloca.u64 %a, 16; st.local.u32 [%a], %v; ld.local.u32 %w, [%a];", functions=FUNCTION)
    assert out[5:].tolist() == [[2 * thread] * 2 for thread in range(5, 64)]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (
            f"L: alloca.u64 %a, 4096; add.u32 %n, %n, 1; setp.lt.u32 %p, %n, {STACK_BYTES // 4096 + 1}; @%p bra L;",
            "bytes here",
        ),
        ("alloca.u64 %a, -16;", "bytes here"),
        ("alloca.u64 %a, 16, 8388608;", None),
        ("stacksave.u64 %s; add.u64 %s, %s, 8; stackrestore.u64 %s;", "no stacksave gives"),
        ("mov.u64 %s, 0; sub.u64 %s, %s, 8; stackrestore.u64 %s;", "no stacksave gives"),
    ],
)
def test_what_does_not_fit_faults(body, said):
    body = f"mov.u32 %n, 0; mov.u32 %v, 0; mov.u32 %w, 0; {body}"
    if said is None:
        assert run(body).shape == (64, 2)
        return
    with pytest.raises(MachineFault, match=said):
        run(body)


def test_one_lane_that_takes_too_much_is_named():
    body = (
        "mov.u32 %v, 0; mov.u32 %w, 0; mov.u64 %size, 8; setp.eq.u32 %p, %t, 37; @%p mov.u64 %size, 99999; "
        "alloca.u64 %a, %size;"
    )
    with pytest.raises(MachineFault) as caught:
        run(body)
    assert (caught.value.warp, caught.value.lanes) == (1, (5,))


@pytest.mark.parametrize("statement", ["alloca.u64 %a, 8, 3;", "alloca.u64 %a, 8, 16777216;", "alloca.b64 %a, 8;"])
def test_what_ptxas_refuses_is_refused(statement):
    with pytest.raises(PtxSyntaxError):
        run(f"mov.u32 %v, 0; mov.u32 %w, 0; {statement}")
