"""The table of element types against numpy, the number formats, and the types that PTX has."""

from __future__ import annotations

import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest

from convc.ir import dtypes
from convc.ir.element_types import BUFFER_TYPES, ELEMENT_TYPES, ML_DTYPES, TENSOR_MAP_TYPES
from convc.ir.tensormap import PADDED
from convc.ptx.syntax import TYPE_BITS


def test_every_type_is_one_of_a_buffer_or_of_a_tensor_map():
    assert set(BUFFER_TYPES) | set(TENSOR_MAP_TYPES) == set(ELEMENT_TYPES)
    assert [name for name, element in ELEMENT_TYPES.items() if element.name != name] == []
    assert set(PADDED) < set(TENSOR_MAP_TYPES)


@pytest.mark.parametrize("name", BUFFER_TYPES)
def test_an_array_has_elements_of_the_size_said(name):
    element = ELEMENT_TYPES[name]
    array = dtypes.ARRAY_TYPES[name]
    assert array.itemsize == element.bytes == np.dtype(element.raw).itemsize == np.dtype(element.npy).itemsize
    assert ml_dtypes.finfo(array).bits == element.bits if element.floating else np.iinfo(array).bits == element.bits
    assert np.dtype(element.npy).isbuiltin
    assert (element.npy == element.array) == bool(array.isbuiltin == 1)


@pytest.mark.parametrize("name", [name for name in BUFFER_TYPES if f".{name}" in TYPE_BITS])
def test_sizes_are_those_of_ptx(name):
    assert ELEMENT_TYPES[name].bits == TYPE_BITS[f".{name}"]


@pytest.mark.parametrize("name", [*dtypes.OUTPUTS, "tf32", "e4m3", "e5m2"])
def test_number_formats_are_stored_in_these_arrays(name):
    dtype = dtypes.BY_NAME[name]
    assert (dtype.bits, dtype.storage) == (ELEMENT_TYPES[name].bits, dtypes.ARRAY_TYPES[name])
    assert dtype.integer != ELEMENT_TYPES[name].floating
    finite = np.iinfo(dtype.storage) if dtype.integer else ml_dtypes.finfo(dtype.storage)
    if name != "tf32":  # which has fewer fraction bits than the float32 that holds it
        assert (dtype.min_finite, dtype.max_finite) == (float(finite.min), float(finite.max))


def test_types_of_less_than_a_byte_have_no_size_in_bytes():
    with pytest.raises(ValueError, match="an element of b6x16_p32 takes 6 bits, not whole bytes"):
        assert ELEMENT_TYPES["b6x16_p32"].bytes


def test_the_types_that_npy_cannot_name_are_those_of_ml_dtypes():
    foreign = {name for name, array in dtypes.ARRAY_TYPES.items() if array.isbuiltin != 1}
    assert {ELEMENT_TYPES[name].array for name in foreign} == set(ML_DTYPES)


def test_the_table_is_read_without_numpy():
    code = "import sys, convc.ir.element_types, convc.ir.arch; print('numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "False"
