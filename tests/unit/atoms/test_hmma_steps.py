"""The published steps of HMMA: they make the whole product, and the machine does the same with the same registers."""

from __future__ import annotations

import numpy as np
import pytest
from support.atom_deals import collect, deal
from support.kernels import execute, module

from convc.atoms.families import find_atom
from convc.atoms.hmma import PORT_BITS, SHAPES, HmmaStep, fragments, steps
from convc.errors import InputError

RNG = np.random.default_rng(11)
A, B = (RNG.integers(-4, 5, (16, 16)).astype(np.float64) for _ in range(2))


def octet_products(each: HmmaStep) -> np.ndarray:
    """How often a step multiplies (m, n, k) of an octet or a warp."""
    size = (16, 16, 16) if each.a_second is None else (8, 8, 16)
    done = np.zeros(size, int)
    for rows in filter(None, (each.a, each.a_second)):
        done[rows[0] : rows[1] + 1, each.b[0] : each.b[1] + 1, each.k[0] : each.k[1] + 1] += 1
    return done


@pytest.mark.parametrize("sums", ["f32", "f16"])
@pytest.mark.parametrize("arch", ["volta", "turing"])
def test_the_steps_multiply_every_pair_once(arch, sums):
    assert (sum(octet_products(each) for each in steps(arch, sums)) == 1).all()


@pytest.mark.parametrize(("sums", "count", "last"), [("f32", 16, 54), ("f16", 8, 64)])
def test_cycles_and_names_are_those_of_the_paper(sums, count, last):
    found = steps("volta", sums)
    cycles = [each.cycle for each in found]
    assert (len(found), cycles[-1], sorted(cycles)) == (count, last, cycles)
    assert found[1].name == f"HMMA.884.{sums.upper()}.{sums.upper()}.STEP1"
    assert {each.set for each in found} == {1, 2, 3, 4}


def test_table_iii_of_the_paper():
    """Set 2: b[0:1] x B, b[2:3] x B, b[0:1] x F, b[2:3] x F; the second group the same of f."""
    found = [(each.a, each.a_second, each.b, each.owner) for each in steps("volta") if each.set == 2]
    assert found == [
        ((0, 1), (4, 5), (0, 3), "X"),
        ((2, 3), (6, 7), (0, 3), "X"),
        ((0, 1), (4, 5), (4, 7), "X+4"),
        ((2, 3), (6, 7), (4, 7), "X+4"),
    ]


def test_register_reads_fit_the_port():
    """With f16 sums all of the port is used where both groups of an octet are sent B; with f32 half of A's is free."""
    a, b, c = steps("volta", "f32")[0].bits
    assert (a, b, c) == (1024, 1024, 2048)
    assert a + 2 * b + c == PORT_BITS - 1024
    a, b, c = steps("volta", "f16")[0].bits
    assert a + 2 * b + c == PORT_BITS == 6144
    assert steps("turing", "f32")[0].bits == (2048, 1024, 4096)


@pytest.mark.parametrize("sums", ["f32", "f16"])
def test_octets_have_the_rows_and_columns_of_table_ii(sums):
    atom = fragments("volta", sums)
    for name, first, second in (("A", (0, 8, 0, 8), 4), ("B", (0, 0, 8, 8), 4)):
        thread, _, row, _ = atom[name].places
        for octet, start in enumerate(first):
            for group, rows in ((octet, start), (octet + 4, start + second)):
                assert set(row[thread // 4 == group].tolist()) == set(range(rows, rows + 4)), (name, group)
    thread, _, row, column = atom["D"].places
    for octet in range(4):
        own = thread // 4 % 4 == octet
        assert {(m // 8, n // 8) for m, n in zip(row[own], column[own], strict=True)} == {(octet % 2, octet // 2)}


def run(heads: list[str], a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """mma.sync after mma.sync on words (32, registers) of A, B and C: each a head and numbers of its registers."""
    counts = (a.shape[1], b.shape[1], c.shape[1])
    words = np.concatenate([a, b, c], axis=1)
    lines = [
        ".reg .b32 %x<64>, %t; .reg .b64 %o;",
        f"mov.u32 %t, %tid.x; mul.wide.u32 %o, %t, {4 * words.shape[1]}; add.u64 %p_x, %p_x, %o;",
        f"mul.wide.u32 %o, %t, {4 * counts[2]}; add.u64 %p_out, %p_out, %o;",
        *(f"ld.global.b32 %x{i}, [%p_x+{4 * i}];" for i in range(words.shape[1])),
    ]
    for head in heads:
        name, *numbers = head.split()
        of_a, of_b, of_d = (list(map(int, part.split(","))) for part in numbers)
        listed = [
            "{" + ", ".join(f"%x{i}" for i in part) + "}"
            for part in (
                [counts[0] + counts[1] + i for i in of_d],
                of_a,
                [counts[0] + i for i in of_b],
                [counts[0] + counts[1] + i for i in of_d],
            )
        ]
        lines.append(f"mma.sync.aligned.{name} {', '.join(listed)};")
    lines += [f"st.global.b32 [%p_out+{4 * i}], %x{counts[0] + counts[1] + i};" for i in range(counts[2])]
    out = np.zeros(32 * counts[2], np.uint32)
    done = execute(module("\n".join(lines), pointers=("x", "out")), {"x": words.reshape(-1), "out": out},
                   pointers=("x", "out"))  # fmt: skip
    return done.buffers["out"].reshape(32, -1)


@pytest.mark.parametrize("sums", ["f32", "f16"])
def test_four_sets_of_m8n8k4_on_the_registers_of_volta_are_the_product(sums):
    """Set s reads values 4 s to 4 s + 3 of a thread's row of A and column of B, as HMMA.884 does."""
    atom = fragments("volta", sums)
    kind = np.float32 if sums == "f32" else np.float16
    c = RNG.integers(-4, 5, (16, 16)).astype(kind)
    a, b = (deal(atom[name], tile.astype(np.float16)).view(np.uint32) for name, tile in (("A", A), ("B", B)))
    words = deal(atom["D"], c).view(np.uint32)
    every = ",".join(map(str, range(words.shape[1])))
    head = f"m8n8k4.row.col.{sums}.f16.f16.{sums}"
    heads = [f"{head} {2 * s},{2 * s + 1} {2 * s},{2 * s + 1} {every}" for s in range(4)]
    got = collect(atom["D"], run(heads, a, b, words).view(kind))
    assert np.array_equal(got, A @ B.T + c)


def test_four_m16n8k8_on_the_registers_of_turing_are_the_product():
    """In the order of the sets: half of n, then of k; registers as ptxas gives them to HMMA.1688."""
    atom = fragments("turing")
    c = RNG.integers(-4, 5, (16, 16)).astype(np.float32)
    a, b = (deal(atom[name], tile.astype(np.float16)).view(np.uint32) for name, tile in (("A", A), ("B", B)))
    heads = []
    for each in steps("turing"):
        k, n = each.k[0] // 8, each.b[0] // 8
        sums = ",".join(str(4 * n + i) for i in range(4))
        heads.append(f"m16n8k8.row.col.f32.f16.f16.f32 {2 * k},{2 * k + 1} {2 * n + k} {sums}")
    got = collect(atom["D"], run(heads, a, b, deal(atom["D"], c).view(np.uint32)).view(np.float32))
    assert np.array_equal(got, A @ B.T + c)
    assert fragments("turing")["A"] == find_atom("wmma.m16n16k16.f16")["A"]


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: steps("ampere"), "expected an architecture of volta, turing, got 'ampere'"),
        (lambda: steps("volta", "f64"), "expected sums of f32, f16"),
        (lambda: steps("volta", "f32", "m16n8k8"), "steps of m16n8k8 on volta are not published"),
        (lambda: fragments("volta", "s32"), "expected sums"),
    ],
)
def test_what_is_not_published_is_refused(ask, message):
    with pytest.raises(InputError, match=message):
        ask()


def test_products_of_one_set():
    assert [each.set for each in steps("volta", "f16", "m8n8k4")] == [1, 1]
    assert len(steps("turing", "f32", "m16n8k8")) == 1
    assert SHAPES["volta"] == ("m16n16k16", "m8n8k4")
