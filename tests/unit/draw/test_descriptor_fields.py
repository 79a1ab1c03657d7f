"""Descriptors that are explained field by field say what was encoded."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.drawings import marked, words

from convc.draw.descriptors import descriptor_picture
from convc.draw.fields import ExplainedDescriptor, explain_word
from convc.errors import InputError
from convc.ir.tensormap import TensorMap
from convc.machine.tma import tensormap_bytes
from convc.ptx.descriptors import (
    D_OF_KIND,
    OPERAND_TYPES,
    SWIZZLE_CODES,
    BlockScaledDescriptor,
    InstructionDescriptor,
    SharedDescriptor,
    ZeroColumnMask,
    encode_block_scaled,
    encode_instruction,
    encode_shared,
    encode_zero_mask,
)


def read_back(found: ExplainedDescriptor) -> dict[str, int]:
    """Values of the named fields as the picture says them; together with the gaps they are the word."""
    fields = list(marked(descriptor_picture(found).svg(), "field"))
    assert sum(int(each["value"]) << int(each["low"]) for each in fields) == found.word
    assert sum(int(each["width"]) for each in fields) == found.size
    return {each["field"]: int(each["value"]) for each in fields if each["field"]}


def meanings(found: ExplainedDescriptor) -> dict[str, str]:
    return {field.name: field.meaning for field in found.fields if field.name}


OFFSETS = st.integers(0, 2**14 - 1).map(lambda units: 16 * units)


@given(start=OFFSETS, lbo=OFFSETS, sbo=OFFSETS, swizzle=st.sampled_from(list(SWIZZLE_CODES)), base=st.integers(0, 7))
def test_matrix_descriptors(start, lbo, sbo, swizzle, base):
    word = encode_shared(SharedDescriptor(start=start, lbo=lbo, sbo=sbo, swizzle=swizzle, base_offset=base))
    found = explain_word(hex(word), "matrix")
    values = read_back(found)
    assert (16 * values["start"], 16 * values["lbo"], 16 * values["sbo"]) == (start, lbo, sbo)
    said = meanings(found)
    assert said["start"].endswith(f"= {start}")
    assert said["lbo"] == f"leading dimension: {lbo} bytes"
    assert said["sbo"] == f"stride dimension: {sbo} bytes"
    assert said["swizzle"] == swizzle
    assert said["base_offset"].endswith(f"line {base}")
    assert found.wrong == ""


@given(st.data())
def test_instruction_descriptors(data):
    kind = data.draw(st.sampled_from(list(D_OF_KIND)))
    element = data.draw(st.sampled_from(list(OPERAND_TYPES[kind])))
    m = data.draw(st.sampled_from([64, 128, 256]))
    n = data.draw(st.integers(1, 32)) * 8
    d_type = D_OF_KIND[kind][-1]
    transposed = element not in ("e2m3", "e3m2", "e2m1") and data.draw(st.booleans())
    record = InstructionDescriptor(
        kind=kind, d_type=d_type, a_type=element, b_type=element, m=m, n=n, transpose_b=transposed
    )
    found = explain_word(str(encode_instruction(record)), "instruction", kind)
    read_back(found)
    said = meanings(found)
    assert (said["d_type"], said["a_type"], said["b_type"]) == (d_type, element, element)
    assert (said["m"], said["n"]) == (f"M = {m}", f"N = {n}")
    assert said["transpose_b"] == f"B is {'MN' if transposed else 'K'}-major"
    assert found.wrong == ""
    assert f"{element} (kind::{kind})" in meanings(explain_word(hex(found.word)))["a_type"] or kind == "tf32"


def test_block_scaled_descriptors():
    record = BlockScaledDescriptor(
        kind="mxf4nvf4", a_type="e2m1", b_type="e2m1", scale_type="ue4m3", m=128, n=64, sfb_id=2
    )
    found = explain_word(hex(encode_block_scaled(record)), kind="mxf4nvf4")
    assert read_back(found)["sfb_id"] == 2
    assert meanings(found)["scale_type"] == "scale factors are ue4m3"
    assert "instruction descriptor" in found.title
    assert found.title.endswith("of kind::mxf4nvf4")


def test_zero_masks():
    mask = ZeroColumnMask(generate=True, zeroed=3, used=7, shift=16, starts=(1, 2, 3, 4))
    found = explain_word(hex(encode_zero_mask(mask)), "zero-mask")
    assert read_back(found)["start_2"] == 3
    assert meanings(found)["zeroed"] == "3 columns are zeroed in a row"
    assert meanings(found)["start_3"] == "sub-mask 3 begins 4 columns into a run"


def test_tensor_maps():
    tmap = TensorMap(
        mode="im2col", buffer="x", dtype="f16", dims=(64, 56, 56, 1), strides=(128, 7168, 401408), box=(),
        element_strides=(1, 2, 2, 1), lower=(-1, -1), upper=(-1, -2), channels=64, pixels=128, swizzle="128B",
        fill="zero",
    )  # fmt: skip
    raw = tensormap_bytes.encode(tmap, 0x7000)
    found = explain_word(raw.hex())
    values = read_back(found)
    assert (values["global_dim[1]"], values["pixels"]) == (55, 128)
    said = meanings(found)
    assert (said["mode"], said["elemtype"], said["rank"]) == ("im2col", "f16", "4")
    assert (said["global_dim[1]"], said["element_stride[2]"], said["upper[1]"]) == ("56", "2", "-2")
    assert said["global_address"] == "0x7000"
    assert found.wrong == ""
    wrong = explain_word(np.full(128, 255, np.uint8).tobytes().hex())
    assert "not a tensor map" in wrong.wrong


def test_what_is_wrong_stands_in_the_picture():
    found = explain_word("0x4000404000014000", "matrix")
    assert found.wrong == "bit(s) 14 must be 0"
    assert "wrong: bit(s) 14 must be 0" in words(descriptor_picture(found).svg())
    assert explain_word("0x8100010", kind="i8").wrong != ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("0x4x",), "expected a descriptor such as"),
        (("",), "expected a descriptor such as"),
        (("-5",), "expected a descriptor such as"),
        (("0x" + "1" * 20,), "at most 64 bits, got 77 bits"),
        (("0x100000000", "instruction"), "expected 32 bits for --as instruction, got 33 bits"),
        (("0x10", "matrices"), "expected a descriptor of matrix"),
        (("0x10", "instruction", "f64"), "expected a kind of tcgen05.mma"),
        (("0x10", "matrix", "f16"), "--kind is for an instruction descriptor"),
        (("0x10", "tensormap"), "expected 256 hexadecimal digits"),
        (("g" * 256,), "expected 256 hexadecimal digits"),
    ],
)
def test_what_is_no_descriptor(arguments, message):
    with pytest.raises(InputError, match=message):
        explain_word(*arguments)
