"""Each limit of a launch and of tensor memory: what is at it is right, one more is not; and who is accused."""

from __future__ import annotations

import pytest
from unit.auditor.test_audited_kernels import HEAD, audited, rules

from convc import ptx
from convc.auditor.effects.copies import box_of
from convc.auditor.layout import layout_of
from convc.auditor.limits import certainly_resident, resident
from convc.auditor.run import audit_kernel
from convc.errors import InputError, LaunchError
from convc.ir.launch import BufferSpec, LaunchSpec, PointerParam
from convc.ir.tensormap import TensorMap


def launched(**fields) -> LaunchSpec:
    given = {"grid": (4, 1, 1), "block": (64, 1, 1), "buffers": {"out": BufferSpec(dtype="u32", shape=(64,))}}
    return LaunchSpec(entry="k", params=(PointerParam(buffer="out"),), **(given | fields))


def text_of(body: str = "", directives: str = "", variables: str = "", params: str = "") -> str:
    head = HEAD.format(target="sm_100a", directives=directives).replace(".param .u64 out", f".param .u64 out{params}")
    return head.replace(".visible .entry", f"{variables}\n.visible .entry") + body + "\nret;\n}\n"


def static(size: int) -> str:
    return f".shared .align 16 .b8 own[{size}];"


OF_4096 = {"variables": static(4096), "body": "mov.u32 %a, own;"}


@pytest.mark.parametrize(
    ("fields", "text", "said"),
    [
        ({"shared_bytes": 232448}, {}, ""),
        ({"shared_bytes": 232448 - 4096}, OF_4096, ""),
        ({"shared_bytes": 232448 - 4096 + 16}, OF_4096, "4096 static and 228368 dynamic bytes"),
        ({}, {"variables": static(49152), "body": "mov.u32 %a, own;"}, ""),
        (
            {},
            {"variables": static(49168), "body": "mov.u32 %a, own;"},
            "static variables take 49168 bytes",
        ),
        ({"block": (8, 8, 2)}, {"directives": ".maxntid 128, 1, 1"}, ""),
        ({"block": (8, 8, 2)}, {"directives": ".maxntid 127, 1, 1"}, ".maxntid (127, 1, 1) is less than block"),
        ({"block": (8, 8, 2)}, {"directives": ".reqntid 8, 8, 2"}, ""),
        ({"block": (8, 8, 2)}, {"directives": ".reqntid 128, 1, 1"}, ".reqntid demands block (128, 1, 1)"),
        ({"cluster": (4, 1, 1)}, {"directives": ".explicitcluster\n.maxclusterrank 4"}, ""),
        ({"cluster": (4, 1, 1)}, {"directives": ".explicitcluster\n.maxclusterrank 3"}, ".maxclusterrank 3 is less"),
        ({"cluster": (2, 1, 1)}, {"directives": ".explicitcluster\n.reqnctapercluster 2, 1, 1"}, ""),
        (
            {"cluster": (4, 1, 1)},
            {"directives": ".explicitcluster\n.reqnctapercluster 2, 1, 1"},
            ".reqnctapercluster demands cluster (2, 1, 1)",
        ),
    ],
)
def test_a_launch_may_be_at_each_limit_and_not_beyond(fields, text, said):
    """PTX 11.4, 11.7; 227 KiB of shared memory, of which 48 KiB are static (compute capability 10.0)."""
    found = audit_kernel(text_of(**text), launched(**fields))
    assert [finding.rule for finding in found.findings] == (["launch-limits"] if said else [])
    assert not said or said in found.findings[0].message


@pytest.mark.parametrize(
    ("block", "shared", "fit"),
    [
        *(((32, 1, 1), 0, 32), ((1, 1, 1), 0, 32), ((128, 1, 1), 0, 16), ((1024, 1, 1), 0, 2), ((65, 1, 1), 0, 21)),
        *(((32, 8, 4), 0, 2), ((32, 1, 1), 232448, 1), ((32, 1, 1), 115712, 2), ((32, 1, 1), 115713, 1)),
    ],
)
def test_ctas_of_an_sm_by_hand(block, shared, fit):
    """2048 threads in whole warps, 32 CTAs, and 228 KiB, of which each CTA costs 1 KiB more than it asks for."""
    launch = launched(block=block, shared_bytes=shared)
    module = ptx.parse(text_of())
    kernel = module.kernels[0]
    assert resident(layout_of(module, kernel, launch), kernel, launch) == fit


@pytest.mark.parametrize(
    ("directives", "block", "fit", "certain"),
    [
        ("", (1024, 1, 1), 2, 1),
        ("", (128, 1, 1), 16, 2),
        (".maxnreg 32", (128, 1, 1), 16, 16),
        (".maxnreg 33", (128, 1, 1), 16, 12),
        (".maxnreg 32", (128, 1, 1), 3, 3),
        (".maxntid 1024, 1, 1\n.minnctapersm 2", (1024, 1, 1), 2, 2),
        (".maxntid 128, 1, 1\n.minnctapersm 4", (128, 1, 1), 3, 3),
        ("", (33, 1, 1), 16, 4),
    ],
)
def test_ctas_that_fit_whatever_registers_they_get_by_hand(directives, block, fit, certain):
    """65,536 registers, in units of 8 a thread; 255 for each where the text says nothing."""
    kernel = ptx.parse(text_of(directives=directives)).kernels[0]
    assert certainly_resident(fit, kernel, launched(block=block)) == certain


def taken(columns: int, used: str, more: str = "") -> str:
    """Warp 0 takes columns, uses them and gives them back."""
    return f"""
    @!%mine bra past;
    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%smem], {columns};
    ld.shared.b32 %tmem, [%smem];
    {used}
    tcgen05.wait::ld.sync.aligned;
    tcgen05.dealloc.cta_group::1.sync.aligned.b32 %tmem, {columns};
    {more}
    past:
    """


def names(count: int) -> str:
    return ", ".join(["%b"] * count)


@pytest.mark.parametrize(("columns", "right"), [(16, 0), (32, 1), (48, 0), (64, 1), (512, 1), (1024, 0)])
def test_columns_are_a_power_of_two_that_there_is(columns, right):
    """In a register, as the parser reads numbers of the text."""
    found = audited(f"mov.u32 %c, {columns};" + taken(columns, "").replace(f", {columns};", ", %c;"))
    assert ("no power of two" in str(found.findings)) != right


@pytest.mark.parametrize(
    ("shape", "registers", "width"),
    [
        *(("32x32b.x1", 1, 1), ("32x32b.x8", 8, 8), ("16x64b.x1", 1, 2), ("16x64b.x4", 4, 8)),
        *(("16x128b.x1", 2, 4), ("16x256b.x1", 4, 8), ("16x256b.x2", 8, 16)),
    ],
)
def test_a_load_has_as_many_columns_as_its_shape(shape, registers, width):
    """PTX 9.7.16.2.3: the last that fits is right, one behind it leaves the allocation."""
    load = f"tcgen05.ld.sync.aligned.{shape}.b32 {{{names(registers)}}}, [%a];"
    for column, right in ((64 - width, True), (65 - width, False)):
        found = audited(taken(64, f"add.u32 %a, %tmem, {column};\n{load}"))
        assert rules(found) == (set() if right else {"tensor-memory-alloc"})
        assert right or f"columns {column} to 64 are used and not allocated by CTA 0" in str(found.findings[0])


def test_columns_that_are_packed_are_twice_as_many():
    load = "tcgen05.ld.sync.aligned.32x32b.x1.pack::16b.b32 {%b}, [%a];"
    assert rules(audited(taken(64, f"add.u32 %a, %tmem, 62;\n{load}"))) == set()
    assert rules(audited(taken(64, f"add.u32 %a, %tmem, 63;\n{load}"))) == {"tensor-memory-alloc"}


SECOND = """
    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%smem+4], {columns};
    ld.shared.b32 %c, [%smem+4];
    tcgen05.dealloc.cta_group::1.sync.aligned.b32 %c, {columns};
"""


@pytest.mark.parametrize(("first", "second", "right"), [(256, 256, 1), (256, 512, 0), (512, 32, 0), (32, 256, 1)])
def test_allocations_together_have_512_columns(first, second, right):
    found = audited(taken(first, SECOND.format(columns=second)))
    assert rules(found) == (set() if right else {"tensor-memory-alloc"})
    assert right or f"the CTA holds {first} columns and allocates {second} more" in found.findings[0].message


def test_columns_that_were_given_back_are_free():
    assert rules(audited(taken(512, "", SECOND.format(columns=512)))) == set()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("%tmem, 32", "32 columns are freed of an allocation of 64"),
        ("%a, 64", "column 32 is not the first of an allocation of this CTA"),
    ],
)
def test_columns_are_given_back_as_they_were_taken(given, said):
    body = taken(64, "add.u32 %a, %tmem, 32;").replace("%tmem, 64", given)
    found = audited(body)
    assert rules(found) == {"tensor-memory-alloc"}
    assert said in str(found.findings)
    twice = audited(taken(64, "", "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %tmem, 64;"))
    assert "tcgen05.dealloc of columns that are not allocated" in twice.findings[0].message


def test_a_permit_that_was_given_back_is_gone_and_who_gave_it_is_told():
    gone = "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;\n"
    assert rules(audited(taken(64, "", gone))) == set()
    found = audited(taken(64, "", gone + SECOND.format(columns=64)))
    (finding,) = found.findings
    assert "after tcgen05.relinquish_alloc_permit" in finding.message
    assert finding.other is not None
    assert 0 < finding.other.line < finding.line
    assert (finding.other.cta, finding.other.warp) == (0, 0)


@pytest.mark.parametrize(("warps", "lane", "right"), [(1, 0, 1), (1, 32, 0), (2, 32, 1), (2, 0, 1), (2, 64, 0)])
def test_a_warp_reaches_the_lanes_of_its_quarter(warps, lane, right):
    """A lane below 32 counts from the first one of the quarter; the last of the warps asks."""
    body = taken(64, f"add.u32 %a, %tmem, {lane << 16};\ntcgen05.ld.sync.aligned.32x32b.x1.b32 {{%b}}, [%a];")
    body = f"setp.eq.u32 %mine, %warp, {warps - 1};\n" + body
    found = audited(body)
    assert rules(found) == (set() if right else {"tcgen05-order"})
    first = 32 * (warps - 1)
    assert right or f"its lanes are {first} to {first + 31}" in found.findings[0].message


TWO = text_of() + text_of().partition("smem[];")[2].replace(".entry k(", ".entry other(")


def test_the_kernel_of_a_text_is_found_or_asked_for():
    alone = audit_kernel(text_of(directives=".reqntid 64, 1, 1"))
    assert (alone.entry, alone.clusters) == ("k", (0,))
    with pytest.raises(InputError, match="the text has 2 kernels") as refused:
        audit_kernel(TWO, file="two.ptx")
    assert (refused.value.where, refused.value.hint) == ("two.ptx", "give a launch file")
    with pytest.raises(InputError, match="does not give the number of threads"):
        audit_kernel(text_of())
    with pytest.raises(LaunchError, match="there is no kernel 'gone'") as missing:
        audit_kernel(TWO, LaunchSpec(entry="gone", grid=(1, 1, 1), block=(32, 1, 1), buffers={}, params=()))
    assert "k" in missing.value.hint
    assert "other" in missing.value.hint
    with pytest.raises(LaunchError, match="the kernel has 1 parameters, the launch gives 0"):
        audit_kernel(TWO, LaunchSpec(entry="k", grid=(1, 1, 1), block=(32, 1, 1), buffers={}, params=()))


@pytest.mark.parametrize(
    ("directives", "right"),
    [
        *((".reqntid 32, 8, 4", 1), (".reqntid 1025, 1, 1", 0), (".maxntid 1024, 1, 1", 1)),
        (".reqntid 32, 1, 1\n.explicitcluster\n.reqnctapercluster 16, 1, 1", 1),
        (".reqntid 32, 1, 1\n.explicitcluster\n.reqnctapercluster 17, 1, 1", 0),
    ],
)
def test_without_a_launch_the_text_says_the_extents(directives, right):
    if right:
        assert audit_kernel(text_of(directives=directives)).findings == ()
    else:
        with pytest.raises(InputError, match="is too large"):
            audit_kernel(text_of(directives=directives))


@pytest.mark.parametrize(
    ("grid", "cluster", "walked"),
    [
        *(((1, 1, 1), (1, 1, 1), (0,)), ((4, 3, 2), (2, 1, 1), (0, 11))),
        *(((2, 1, 1), (2, 1, 1), (0,)), ((2, 1, 1), (1, 1, 1), (0, 1))),
    ],
)
def test_the_first_and_the_last_cluster_are_walked(grid, cluster, walked):
    assert audited("", grid=grid, cluster=cluster).clusters == walked


TILE = {
    "mode": "tile", "dims": (256, 64, 64), "strides": (4096, 1 << 18), "element_strides": (1, 1, 1), "box": (128, 4, 2),
}  # fmt: skip
IMAGES = {
    "dims": (128, 16, 16, 4), "strides": (1024, 1 << 14, 1 << 18), "element_strides": (1, 1, 1, 1), "channels": 64,
    "pixels": 100, "lower": (0, 0), "upper": (0, 0),
}  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "mode", "halo", "box"),
    [
        (TILE | {"dtype": "f16"}, "tile", None, (8, 256)),
        (TILE | {"dtype": "u8"}, "tile", None, (8, 128)),
        (TILE | {"dtype": "f32", "element_strides": (1, 3, 1)}, "tile", None, (4, 512)),
        (TILE | {"dtype": "b4x16"}, "tile", None, (8, 64)),
        (TILE | {"dtype": "b4x16_p64"}, "tile", None, (8, 128)),
        (TILE | {"dtype": "b6x16_p32"}, "tile", None, (8, 128)),
        (TILE | {"dtype": "f16"}, "tile::gather4", None, (4, 256)),
        (IMAGES | {"mode": "im2col", "dtype": "f16"}, "im2col", None, (100, 128)),
        (IMAGES | {"mode": "im2col_w", "dtype": "f16"}, "im2col::w", None, None),
        (IMAGES | {"mode": "im2col_w", "dtype": "f16"}, "im2col::w", 3, (103, 128)),
        (IMAGES | {"mode": "im2col_w128", "dtype": "f16"}, "im2col::w::128", 3, (140, 128)),
    ],
)
def test_rows_of_a_copy_and_bytes_of_each(fields, mode, halo, box):
    """CUDA driver API, cuTensorMapEncode*; padded elements of 4 and 6 bits take a byte of shared memory each."""
    assert box_of(TensorMap(buffer="x", **fields), mode, halo) == box
