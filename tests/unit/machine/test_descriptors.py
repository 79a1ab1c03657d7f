"""Descriptor words: vectors worked out by hand from the PTX manual's bit tables, round trips, and refusals."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from convc.ptx.descriptors import (
    D_OF_KIND,
    OPERAND_TYPES,
    SCALE_OF_KIND,
    SWIZZLE_CODES,
    WS_SHIFTS,
    BlockScaledDescriptor,
    InstructionDescriptor,
    SharedDescriptor,
    ZeroColumnMask,
    decode_block_scaled,
    decode_instruction,
    decode_shared,
    decode_warpgroup,
    decode_zero_mask,
    encode_block_scaled,
    encode_instruction,
    encode_shared,
    encode_warpgroup,
    encode_zero_mask,
)

K_MAJOR_128B = SharedDescriptor(start=0x400, lbo=16, sbo=1024, swizzle="128B")
F16 = InstructionDescriptor(kind="f16", d_type="f32", a_type="f16", b_type="f16", m=128, n=256)


@pytest.mark.parametrize(
    ("desc", "word"),
    [
        # swizzle 2 << 61 | version 1 << 46 | 64 << 32 | 1 << 16 | 0x40
        (K_MAJOR_128B, 0x4000404000010040),
        (replace(K_MAJOR_128B, swizzle="none"), 0x0000404000010040),
        (replace(K_MAJOR_128B, swizzle="64B", sbo=512), 0x8000402000010040),
        (replace(K_MAJOR_128B, swizzle="32B", sbo=256), 0xC000401000010040),
        (replace(K_MAJOR_128B, swizzle="128B_atom32", base_offset=5), 0x200A404000010040),
        (SharedDescriptor(start=0x3FFF0, lbo=0x3FFF0, sbo=0x3FFF0, swizzle="none"), 0x00007FFF3FFF3FFF),
        (replace(K_MAJOR_128B, lbo_absolute=True), 0x4010404000010040),
    ],
)
def test_shared_vectors(desc, word):
    assert encode_shared(desc) == word
    assert decode_shared(word) == desc


@pytest.mark.parametrize(
    ("desc", "word"),
    [
        # swizzle 1 << 62 | 64 << 32 | 1 << 16 | 0x40
        (K_MAJOR_128B, 0x4000004000010040),
        (replace(K_MAJOR_128B, swizzle="none"), 0x0000004000010040),
        (replace(K_MAJOR_128B, swizzle="64B", sbo=512, base_offset=3), 0x8006002000010040),
        (replace(K_MAJOR_128B, swizzle="32B", sbo=256), 0xC000001000010040),
    ],
)
def test_warpgroup_vectors(desc, word):
    assert encode_warpgroup(desc) == word
    assert decode_warpgroup(word) == desc


def test_warpgroup_words_that_are_none():
    with pytest.raises(ValueError, match=r"bit\(s\) 46 must be 0"):
        decode_warpgroup(encode_shared(K_MAJOR_128B))
    with pytest.raises(ValueError, match="swizzle must be one of none, 128B, 64B, 32B, got 128B_atom32"):
        encode_warpgroup(replace(K_MAJOR_128B, swizzle="128B_atom32"))
    with pytest.raises(ValueError, match="start must be a multiple of 16 bytes, got 8"):
        encode_warpgroup(replace(K_MAJOR_128B, start=8))
    with pytest.raises(ValueError, match="no absolute leading-dimension address"):
        encode_warpgroup(replace(K_MAJOR_128B, lbo_absolute=True))


@pytest.mark.parametrize(
    ("desc", "word"),
    [
        (F16, 0x08400010),  # M 8 << 24 | N 32 << 17 | D 1 << 4
        (replace(F16, a_type="bf16", b_type="bf16", n=64), 0x08100490),
        (replace(F16, d_type="f16", m=64, n=8), 0x04020000),
        (replace(F16, kind="tf32", a_type="tf32", b_type="tf32", transpose_b=True), 0x08410910),
        (replace(F16, negate_a=True, transpose_a=True, ws_max_shift=32), 0xC840A010),
        (replace(F16, kind="f8f6f4", a_type="e5m2", b_type="e2m1", negate_b=True), 0x08405490),
        (
            replace(
                F16, kind="i8", d_type="s32", a_type="u8", b_type="s8", saturate=True, sparse=True, sparsity_selector=2
            ),
            0x0840042E,
        ),
        (replace(F16, m=256, n=16), 0x10040010),
    ],
)
def test_instruction_vectors(desc, word):
    assert encode_instruction(desc) == word
    assert decode_instruction(word, desc.kind) == desc


def test_block_scaled_vectors():
    mxf8 = BlockScaledDescriptor(
        kind="mxf8f6f4", a_type="e4m3", b_type="e3m2", scale_type="ue8m0", m=128, n=32, sfa_id=3, sfb_id=2
    )
    assert encode_block_scaled(mxf8) == 3 << 29 | 8 << 24 | 1 << 23 | 4 << 17 | 4 << 10 | 2 << 4
    mxf4 = BlockScaledDescriptor(kind="mxf4nvf4", a_type="e2m1", b_type="e2m1", scale_type="ue4m3", m=256, n=256)
    assert encode_block_scaled(mxf4) == 2 << 27 | 32 << 17 | 1 << 10 | 1 << 7
    for desc in (mxf8, mxf4):
        assert decode_block_scaled(encode_block_scaled(desc), desc.kind) == desc


def test_zero_mask_vector():
    """Three sub-masks aside: 2 zeroed columns, then 14 used ones, entered 1 column late, B shifted by 2."""
    mask = ZeroColumnMask(
        starts=(1, 0, 7, 255), zero_first=(True, False, False, True), generate=True, zeroed=2, used=14, shift=2
    )
    assert encode_zero_mask(mask) == 0x020D018900000000 | 0xFF070001
    assert decode_zero_mask(0x020D0189FF070001) == mask


multiples_of_16 = st.integers(0, 2**14 - 1).map(lambda n: 16 * n)


@given(*[multiples_of_16] * 3, st.integers(0, 7), st.sampled_from(sorted(SWIZZLE_CODES)), st.booleans())
def test_shared_round_trip(start, lbo, sbo, base, swizzle, absolute):
    desc = SharedDescriptor(start=start, lbo=lbo, sbo=sbo, base_offset=base, swizzle=swizzle, lbo_absolute=absolute)
    assert decode_shared(encode_shared(desc)) == desc


@given(st.data())
def test_instruction_round_trip(data):
    kind = data.draw(st.sampled_from(sorted(D_OF_KIND)))
    types = [name for name in OPERAND_TYPES[kind] if name[:2] not in ("e2", "e3")]
    a_type = data.draw(st.sampled_from(types))
    flags = ["transpose_a", "transpose_b", "sparse"] + (["saturate"] if kind == "i8" else ["negate_a", "negate_b"])
    desc = InstructionDescriptor(
        kind=kind,
        d_type=D_OF_KIND[kind][-1],
        a_type=a_type,
        b_type=a_type if kind == "f16" else data.draw(st.sampled_from(types)),
        m=16 * data.draw(st.integers(1, 16)),
        n=8 * data.draw(st.integers(1, 32)),
        ws_max_shift=data.draw(st.sampled_from(sorted(WS_SHIFTS))),
        sparsity_selector=data.draw(st.integers(0, 3)),
        **{flag: data.draw(st.booleans()) for flag in flags},
    )
    word = encode_instruction(desc)
    assert 0 <= word < 2**32
    assert decode_instruction(word, kind) == desc


@given(st.data())
def test_block_scaled_round_trip(data):
    kind = data.draw(st.sampled_from(sorted(SCALE_OF_KIND)))
    types = st.sampled_from(sorted(OPERAND_TYPES[kind]))
    ids = st.integers(0, 3)
    flags = {flag: data.draw(st.booleans()) for flag in ("negate_a", "negate_b", "sparse")}
    desc = BlockScaledDescriptor(
        kind=kind,
        a_type=data.draw(types),
        b_type=data.draw(types),
        scale_type=data.draw(st.sampled_from(SCALE_OF_KIND[kind])),
        m=data.draw(st.sampled_from([128, 256])),
        n=8 * data.draw(st.integers(1, 32)),
        sfa_id=data.draw(ids),
        sfb_id=data.draw(ids),
        **flags,
    )
    assert decode_block_scaled(encode_block_scaled(desc), kind) == desc


@given(
    st.tuples(*[st.integers(0, 255)] * 4),
    st.tuples(*[st.booleans()] * 4),
    st.booleans(),
    st.integers(1, 256),
    st.integers(1, 256),
    st.integers(0, 32),
)
def test_zero_mask_round_trip(starts, zero_first, generate, zeroed, used, shift):
    mask = ZeroColumnMask(
        starts=starts, zero_first=zero_first, generate=generate, zeroed=zeroed, used=used, shift=shift
    )
    assert decode_zero_mask(encode_zero_mask(mask)) == mask


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"start": 8}, "start must be a multiple of 16 bytes, got 8"),
        ({"lbo": 24}, "lbo must be a multiple of 16"),
        ({"sbo": 1 << 18}, "sbo does not fit into its 14-bit field"),
        ({"start": -16}, "start does not fit"),
        ({"base_offset": 8}, "base_offset does not fit into its 3-bit field"),
        ({"swizzle": "96B"}, "swizzle must be one of none, 128B_atom32, 128B, 64B, 32B, got 96B"),
    ],
)
def test_shared_refusals(changes, message):
    with pytest.raises(ValueError, match=message):
        encode_shared(replace(K_MAJOR_128B, **changes))


@pytest.mark.parametrize(
    ("word", "message"),
    [
        (0x4000804000010040, "bits 46-48 must be 0b001 on sm_100, got 0b010"),
        (0x6000404000010040, r"code 3 is no swizzle \(0 = none, 1 = 128B_atom32, 2 = 128B, 4 = 64B, 6 = 32B\)"),
        (0xE000404000010040, "code 7 is no swizzle"),
        (0x4000404000014040, r"bit\(s\) 14 must be 0"),
        (0x4000404040010040, r"bit\(s\) 30 must be 0"),
        (0x4000404080010040, r"bit\(s\) 31 must be 0"),
        (0x5020404000010040, r"bit\(s\) 53, 60 must be 0"),
        (1 << 64, "is not a 64-bit word"),
    ],
)
def test_shared_words_refused(word, message):
    with pytest.raises(ValueError, match=message):
        decode_shared(word)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kind": "f64"}, "kind must be one of f16, tf32, f8f6f4, i8, got f64"),
        ({"d_type": "s32"}, "D type of kind::f16 must be one of f16, f32, got s32"),
        ({"a_type": "e4m3"}, "A type of kind::f16 must be one of f16, bf16, got e4m3"),
        ({"a_type": "bf16"}, "A and B of one type, got bf16 and f16"),
        ({"a_type": "bf16", "b_type": "bf16", "d_type": "f16"}, "D of type f16 needs f16 operands, got bf16"),
        ({"m": 100}, "M must be a multiple of 16 up to 256, got 100"),
        ({"n": 264}, "N must be a multiple of 8 up to 256, got 264"),
        ({"n": 0}, "N must be a multiple of 8"),
        ({"saturate": True}, "saturate is for kind::i8 only, got kind::f16"),
        ({"ws_max_shift": 4}, "largest shift must be one of 0, 8, 16, 32, got 4"),
        ({"sparsity_selector": 4}, "sparsity_selector does not fit into its 2-bit field"),
        ({"kind": "i8", "d_type": "s32", "a_type": "s8", "b_type": "s8", "negate_b": True}, "cannot negate"),
        ({"kind": "f8f6f4", "a_type": "e2m3", "b_type": "e4m3", "transpose_a": True}, "A of type e2m3 must be K-major"),
    ],
)
def test_instruction_refusals(changes, message):
    with pytest.raises(ValueError, match=message):
        encode_instruction(replace(F16, **changes))


@pytest.mark.parametrize(
    ("word", "kind", "message"),
    [
        (0x08400010, "f64", "kind must be one of"),
        (0x08400010, "tf32", r"code 0 is no A type of kind::tf32 \(2 = tf32\)"),
        (0x08400050, "f16", r"bit\(s\) 6 must be 0"),
        (0x08400030, "f16", "code 3 is no D type"),
        (0x08400018, "f16", "saturate"),
        (0x00400010, "f16", "M must be a multiple of 16 up to 256, got 0"),
        (-1, "f16", "is not a 32-bit word"),
    ],
)
def test_instruction_words_refused(word, kind, message):
    with pytest.raises(ValueError, match=message):
        decode_instruction(word, kind)


def test_block_scaled_refusals():
    good = BlockScaledDescriptor(kind="mxf4", a_type="e2m1", b_type="e2m1", scale_type="ue8m0", m=128, n=8)
    for changes, message in (
        ({"kind": "f16"}, "kind must be one of mxf8f6f4, mxf4, mxf4nvf4"),
        ({"scale_type": "ue4m3"}, "scale type of kind::mxf4 must be one of ue8m0"),
        ({"m": 64}, "M of a block-scaled kind must be one of 128, 256"),
        ({"transpose_a": True}, "must be K-major"),
    ):
        with pytest.raises(ValueError, match=message):
            encode_block_scaled(replace(good, **changes))
    with pytest.raises(ValueError, match=r"bit\(s\) 31 must be 0"):
        decode_block_scaled(encode_block_scaled(good) | 1 << 31, "mxf4")


def test_zero_mask_refusals():
    with pytest.raises(ValueError, match=r"shift must be in 0\.\.32, got 33"):
        encode_zero_mask(ZeroColumnMask(shift=33))
    with pytest.raises(ValueError, match="used does not fit into its 8-bit field"):
        encode_zero_mask(ZeroColumnMask(used=0))
    with pytest.raises(ValueError, match="four sub-masks"):
        encode_zero_mask(ZeroColumnMask(starts=(0, 0)))
    with pytest.raises(ValueError, match=r"bit\(s\) 36 must be 0"):
        decode_zero_mask(1 << 36)
