"""A matrix that is read in another order than the one in which copies have brought it is for review."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from check_kernels import check, line_of, rules
from support.kernels import module

from convc.ir.dtypes import ARRAY_TYPES
from convc.ir.findings import Verdict
from convc.ir.launch import load_launch
from convc.ir.tensormap import SWIZZLE_SPAN, TensorMap
from convc.ptx.descriptors import InstructionDescriptor, SharedDescriptor, encode_instruction, encode_shared
from convc.sanitizer.run import check_kernel

START = 1024
"""Where the shared memory of a kernel that names it begins."""

AT = {"a": 0, "b": 16384}
ROWS = {"a": 128, "b": 32}

KERNEL = """
.reg .b32 %t, %s, %z, %v, %slot, %bar, %d, %i; .reg .b64 %a, %b; .reg .pred %p, %skip, %no;
mov.u32 %t, %tid.x; mov.u32 %s, smem; mov.b32 %z, 0; setp.ne.u32 %no, %z, 0;
add.u32 %slot, %s, 32768; add.u32 %bar, %s, 32776;
tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%slot], 32;
ld.shared.b32 %d, [%slot];
setp.ne.u32 %skip, %t, 0; @%skip bra END;
mbarrier.init.shared::cta.b64 [%bar], 1; fence.mbarrier_init.release.cluster;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], {bytes};
{copies}
LOAD: mbarrier.try_wait.parity.shared::cta.b64 %p, [%bar], 0; @!%p bra LOAD;
{between}
mov.b64 %a, {a}; mov.b64 %b, {b}; mov.b32 %i, {idesc};
tcgen05.mma.cta_group::1.kind::f16 [%d], %a, %b, %i, %no;
tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%bar];
WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p, [%bar], 1; @!%p bra WAIT;
END: bar.warp.sync 0xffffffff;
tcgen05.fence::after_thread_sync;
tcgen05.dealloc.cta_group::1.sync.aligned.b32 %d, 32;
"""
COPY = (
    "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
    "[%s+{at}], [%m_{map}, {{%z, %z}}], [%bar];"
)
BULK = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%s+{at}], [%p_out], {bytes}, [%bar];"


def box(swizzle: str, rows: int) -> TensorMap:
    """Rows of one span, without a swizzle of 32 bytes."""
    elements = (SWIZZLE_SPAN[swizzle] or 32) // 2
    return TensorMap(
        mode="tile", buffer="out", dtype="f16", dims=(elements, 128), strides=(2 * elements,), element_strides=(1, 1),
        box=(elements, rows), swizzle=swizzle,
    )  # fmt: skip


def matrix(swizzle: str, at: int) -> SharedDescriptor:
    """A matrix of 16 halves a row; without a swizzle each eight rows are two times 128 bytes."""
    return SharedDescriptor(start=START + at, lbo=128, sbo=8 * (SWIZZLE_SPAN[swizzle] or 32), swizzle=swizzle)


def kernel(
    copies: str, moved: int, a: SharedDescriptor, b: SharedDescriptor, between: str = "", maps=("a", "b")
) -> str:
    shape = InstructionDescriptor(kind="f16", d_type="f32", a_type="f16", b_type="f16", m=128, n=16)
    body = KERNEL.format(
        copies=copies, bytes=moved, a=encode_shared(a), b=encode_shared(b), idesc=encode_instruction(shape),
        between=between,
    )  # fmt: skip
    return module(body.replace("; ", ";\n"), maps=maps, shared=".extern .shared .align 1024 .b8 smem[];\n")


def judged(wrote: dict[str, str], read: dict[str, SharedDescriptor | str], between: str = ""):
    """What is found where the maps of A and B have these swizzles, and their descriptors those."""
    maps = {name: box(wrote[name], ROWS[name]) for name in "ab"}
    copies = "\n".join(COPY.format(at=AT[name], map=name) for name in "ab")
    moved = sum(each.row_pitch * ROWS[name] for name, each in maps.items())
    read = {name: matrix(how, AT[name]) if isinstance(how, str) else how for name, how in read.items()}
    text = kernel(copies, moved, read["a"], read["b"], between)
    return text, check(text, threads=32, size=1 << 15, shared=32784, maps=tuple(maps.values()))


@pytest.mark.parametrize(
    ("a", "b"), [("128B", "128B"), ("64B", "64B"), ("32B", "32B"), ("none", "none"), ("128B", "64B"), ("none", "32B")]
)
def test_the_swizzle_of_the_map_is_right_for_each_operand(a, b):
    _, found = judged({"a": a, "b": b}, {"a": a, "b": b})
    assert rules(found) == set()


@pytest.mark.parametrize(
    ("wrote", "read"),
    [
        ("128B", "64B"),
        ("128B", "32B"),
        ("128B", "none"),
        ("64B", "32B"),
        ("64B", "none"),
        ("32B", "none"),
        ("none", "32B"),
    ],
)
@pytest.mark.parametrize("name", ["a", "b"])
def test_another_swizzle_is_for_review(name, wrote, read):
    other = "b" if name == "a" else "a"
    text, found = judged({name: wrote, other: "128B"}, {name: read, other: "128B"})
    (finding,) = found.findings
    assert (finding.rule, finding.verdict) == ("swizzle-mismatch", Verdict.review)
    assert f"the descriptor of {name.upper()} has swizzle {read}, but its bytes were written with" in finding.message
    assert f"swizzle {wrote} of the tensor map" in finding.message
    assert finding.line == line_of(text, "tcgen05.mma.cta_group::1.kind::f16 [%d]")
    assert finding.other.line == line_of(text, f"[%m_{name},")


def test_swizzles_that_have_changed_places_are_found():
    _, found = judged({"a": "128B", "b": "64B"}, {"a": "64B", "b": "128B"})
    assert rules(found) >= {"swizzle-mismatch"}
    assert any("descriptor of A" in finding.message for finding in found.findings)


def test_rows_that_stay_where_they_are_have_no_order():
    """Eight rows are the first line of a pattern, which the swizzle of 128 bytes leaves as it is."""
    apart = SharedDescriptor(start=START + AT["b"], lbo=1024, sbo=2048, swizzle="none")
    assert rules(judged({"a": "128B", "b": "128B"}, {"a": "128B", "b": apart})[1]) == set()
    assert rules(judged({"a": "128B", "b": "128B"}, {"a": "128B", "b": "none"})[1]) == {"swizzle-mismatch"}


REWRITE = """mov.b32 %i, 0;
NEXT: add.u32 %v, %s, %i;
ld.shared.u32 %a32, [%v];
st.shared.u32 [%v], %a32;
add.u32 %i, %i, {step};
setp.lt.u32 %p, %i, 8192;
@%p bra NEXT;
fence.proxy.async.shared::cta;"""


@pytest.mark.parametrize("step", [256, 4096])
def test_what_threads_have_written_is_theirs_to_order(step):
    """Some words of the matrix, or two: the others may have been brought so that these fit."""
    between = ".reg .b32 %a32;\n" + REWRITE.format(step=step)
    assert rules(judged({"a": "128B", "b": "128B"}, {"a": "64B", "b": "128B"}, between)[1]) == set()


def test_a_copy_without_a_tensor_map_has_no_order():
    """Weights that the host has laid out."""
    a, b = matrix("128B", AT["a"]), matrix("128B", AT["b"])
    copies = "\n".join(BULK.format(at=AT[name], bytes=128 * ROWS[name]) for name in "ab")
    text = kernel(copies, 128 * 160, a, b, maps=())
    assert rules(check(text, threads=32, size=1 << 15, shared=32784)) == set()


def test_rows_that_nobody_means_may_be_of_another_matrix():
    """Half of the rows are those of another copy, as where a tile has fewer than an MMA reads."""
    maps = (box("128B", 64), box("64B", 128), box("128B", 32))
    copies = "\n".join(
        COPY.format(at=at, map=name) for name, at in (("a", 0), ("c", 8192), ("b", AT["b"]))
    )  # fmt: skip
    text = kernel(copies, 8192 + 8192 + 4096, matrix("128B", 0), matrix("128B", AT["b"]), maps=("a", "c", "b"))
    assert rules(check(text, threads=32, size=1 << 15, shared=32784, maps=maps)) == set()


GOLDEN = Path(__file__).parents[2] / "golden"


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        ("hopper_f16", "0x40000040", "0x80000040"),
        ("hopper_f16", "0x40000040", "0xc0000040"),
        ("pair_f16", "0x40004040", "0x80004040"),
        ("slide_f16", "0x40004040", "0xc0004040"),
    ],
)
def test_kernels_with_another_swizzle(name, right, wrong):
    launch = load_launch(GOLDEN / name / "launch.json")
    text = (GOLDEN / name / "kernel.ptx").read_text()
    assert right in text
    buffers = {key: np.zeros(spec.shape, ARRAY_TYPES[spec.dtype]) for key, spec in launch.buffers.items()}
    found = check_kernel(text.replace(right, wrong), launch, buffers).findings
    assert "swizzle-mismatch" in {finding.rule for finding in found}


@pytest.mark.parametrize("names", ["a", "b", "ab"])
def test_descriptors_of_triton_3_5(names):
    """Bits 46-48 are 0 there: the tensor core reads such words, and the manual forbids them."""
    text, clean = judged({"a": "128B", "b": "128B"}, {"a": "128B", "b": "128B"})
    for name in names:
        word = encode_shared(matrix("128B", AT[name]))
        assert f"%{name}, {word};" in text
        text = text.replace(f"%{name}, {word};", f"%{name}, {word - (1 << 46)};")
    maps = tuple(box("128B", ROWS[name]) for name in "ab")
    found = check(text, threads=32, size=1 << 15, shared=32784, maps=maps)
    (finding,) = found.findings
    assert (finding.rule, finding.verdict) == ("descriptor-version", Verdict.rule)
    assert "are 0b000, not 0b001; PTX manual" in finding.message
    np.testing.assert_array_equal(found.result.buffers["out"], clean.result.buffers["out"])
