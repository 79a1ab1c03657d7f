"""Operands of many CTAs: one that all of them share is widened once, and nobody gets another CTA's."""

from __future__ import annotations

import numpy as np
import pytest
import tensor_kernels
from tensor_kernels import BASE, k_major, mma_text, run_tensor

from convc.machine import RunOptions
from convc.machine.base.switches import Switches
from convc.machine.tensor_core.fetch import fetch_k_major
from convc.ptx.descriptors import InstructionDescriptor, SharedDescriptor, encode_instruction, encode_shared

RNG = np.random.default_rng(29)
CTAS = 5
UNLIKE = {"none": [], "all": range(CTAS), "first": [0], "middle": [2], "last": [CTAS - 1]}


def matrices(rows: int, unlike) -> np.ndarray:
    """float16 (CTAs, rows, 16): one matrix, but other ones in the CTAs ``unlike``."""
    found = np.repeat(RNG.standard_normal((1, rows, 16)).astype(np.float16), CTAS, axis=0)
    for cta in unlike:
        found[cta] = RNG.standard_normal((rows, 16))
    return found


@pytest.mark.parametrize("unlike", UNLIKE)
def test_an_operand_that_all_ctas_share_is_widened_once(unlike):
    matrix = matrices(8, UNLIKE[unlike])
    found = fetch_k_major(matrix.reshape(CTAS, -1).view(np.complex128), np.arange(16), 8, "f16", "plain")
    assert len(found) == (1 if unlike == "none" else CTAS)
    assert np.array_equal(np.broadcast_to(found, matrix.shape), matrix.astype(np.float32))


@pytest.mark.one_of(2)
@pytest.mark.parametrize("numerics", ["float32", "exact"])
@pytest.mark.parametrize(("m", "n", "columns", "form"), [(128, 32, 32, ""), (64, 64, 32, ".ws")])
@pytest.mark.parametrize("b_unlike", ["none", "middle"])
@pytest.mark.parametrize("a_unlike", ["none", "last"])
def test_ctas_together_give_what_each_gives_alone(a_unlike, b_unlike, m, n, columns, form, numerics, monkeypatch):
    monkeypatch.setattr(tensor_kernels, "OPTIONS", RunOptions(switches=Switches(numerics=numerics)))
    a, b = matrices(m, UNLIKE[a_unlike]), matrices(n, UNLIKE[b_unlike])
    image = np.stack([k_major(np.concatenate([x.view(np.uint8), y.view(np.uint8)])) for x, y in zip(a, b, strict=True)])
    words = [
        encode_shared(SharedDescriptor(start=BASE + 16 * first, lbo=16 * (m + n), sbo=128, swizzle="none"))
        for first in (0, m)
    ]
    idesc = encode_instruction(InstructionDescriptor(kind="f16", d_type="f32", a_type="f16", b_type="f16", m=m, n=n))
    body = "".join(mma_text(str(words[0]), words[1], idesc, form=form, add=add) for add in (False, True))
    together, _ = run_tensor(body, image=image, shown=columns)
    for cta in range(CTAS):
        alone, _ = run_tensor(body, image=image[cta], shown=columns)
        assert together[cta].any()
        assert np.array_equal(together[cta], alone)
