"""Run a tile program: the roles of a CTA as coroutines that hand over at ring waits."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping

import numpy as np
from support.interpret import epilogue, lanes, operands, order, persistent, split
from support.interpret.meaning import perform
from support.interpret.state import Array, CtaState, RoleState, unwritten

from convc.compiler.plan.names import PART, RANK, MapName
from convc.compiler.tile.program import Role, TileProgram
from convc.compiler.tile.steps.base import Loop, Step, Strided
from convc.compiler.tile.steps.persistent import FetchLoop
from convc.compiler.tile.steps.rings import RingWait
from convc.compiler.tile.steps.split import LastLoop
from convc.errors import TileError
from convc.ir import dtypes

MEANINGS = (operands, lanes, epilogue, persistent, split, order)
"""Modules that register meanings when they are imported."""


def interpret(program: TileProgram, buffers: Mapping[str, Array]) -> Array:
    """Run every CTA of a program.

    Args:
        program: what to run.
        buffers: packed activation, filter, bias, and residual where there is one, by their names in the launch.

    Returns:
        The output buffer, in its storage type; NaN, or 85, where nothing was written.

    Raises:
        TileError: a deadlock, a copy that starts outside its im2col box, an access off its 16 bytes, an element that is
            written twice.
    """
    spec = program.launch.buffers["output"]
    stored = dtypes.BY_NAME[spec.dtype]
    output = unwritten(stored, int(np.prod(spec.shape)))
    written = np.zeros(output.shape, bool)
    tensors: dict[MapName, Array] = {}
    width, height, parts = program.launch.grid
    waiting = list(range(width)) if program.storage.answers is not None else []
    wide, high, deep = program.launch.cluster
    given = {**buffers, "output": output} | _kept(program)
    corners = itertools.product(range(0, height, high), range(0, width, wide), range(0, parts, deep))
    for low_n, low_m, first in corners:
        if program.storage.answers is not None:
            if low_m not in waiting:
                continue  # another CTA was given its tile
            waiting.remove(low_m)
        ctas = tuple(
            CtaState(
                program=program,
                buffers=given,
                written=written,
                numbers={"cta": tile_m} if program.numbered else {"tile_m": tile_m, "tile_n": tile_n},
                tensors=tensors,
                waiting=waiting,
            )
            for _ in range(deep)
            for tile_n in range(low_n, low_n + high)
            for tile_m in range(low_m, low_m + wide)
        )
        for rank, cta in enumerate(ctas):
            cta.cluster = ctas
            cta.numbers |= {RANK: rank, PART: first + rank % deep}
        _run_cluster(ctas)
    return output.reshape(spec.shape)


def _kept(program: TileProgram) -> dict[str, Array]:
    """The workspace and the counters of split-K clusters."""
    found: dict[str, Array] = {}
    for name, spec in program.launch.buffers.items():
        if spec.values is not None:
            found[name] = np.array(spec.values, np.int64)
        elif name == "workspace":
            sums = np.float64 if spec.dtype == "s32" else np.float32
            found[name] = np.full(np.prod(spec.shape), np.nan, sums)
    return found


def _run_cluster(ctas: tuple[CtaState, ...]) -> None:
    """Set-up, then the roles of all CTAs side by side, then the closing roles, between any two of which all meet."""
    for role in ctas[0].program.setup:
        _act(ctas, role, "set-up")
    running = [
        _go(RoleState(cta, role), role.steps)
        for rank, cta in enumerate(ctas)
        for role in cta.program.roles
        if rank == 0 or not role.leads
    ]
    while running:
        state = _barriers(ctas)
        left = [role for role in running if _advance(role)]
        if len(left) == len(running) and state == _barriers(ctas):
            raise TileError("deadlock: every role waits")
        running = left
    for role in ctas[0].program.teardown:
        _act(ctas, role, "teardown")


def _act(ctas: tuple[CtaState, ...], role: Role, act: str) -> None:
    """A role that all CTAs have done before the next begins."""
    for cta in ctas[:1] if role.leads else ctas:
        if list(_go(RoleState(cta, role), role.steps)):
            raise TileError(f"role {role.name} of the {act} waits")


def _barriers(ctas: tuple[CtaState, ...]) -> list[tuple[int, int, int]]:
    return [barrier.state for cta in ctas for barrier in cta.barriers.values()]


def _advance(role: Iterator[None]) -> bool:
    """Run a role to its next wait; False when it has ended."""
    return next(role, StopIteration) is not StopIteration


def _go(role: RoleState, steps: tuple[Step, ...]) -> Iterator[None]:
    """Do the steps; yields while the role has to wait."""
    for step in steps:
        match step:
            case Loop(var=var, count=count, body=body, leads=leads):
                for number in range(0 if leads and role.integer(RANK) else count):
                    role.numbers[var] = number
                    yield from _go(role, body)
            case Strided(var=var, first=first, stride=stride, limit=limit, body=body):
                for number in range(role.integer(first), limit, stride):
                    role.numbers[var] = number
                    yield from _go(role, body)
            case LastLoop(var=var, count=count, body=body, buffer=buffer, counter=counter, clusters=clusters):
                counted = role.cta.buffer_of(buffer)
                mine = np.unique(role.each(counter))
                before = int(counted[mine].max())
                counted[mine] = (before + 1) % clusters
                for number in range(count if before == clusters - 1 else 0):
                    role.numbers[var] = number
                    yield from _go(role, body)
            case FetchLoop(var=var, first=first, body=body):
                role.numbers[var] = role.integer(first)
                role.goes_on = True
                while role.goes_on:
                    yield from _go(role, body)
            case RingWait(ring=ring, starts_open=starts_open):
                barrier = role.barrier(ring)
                parity = role.phase(ring) ^ starts_open
                while not barrier.passed(parity):
                    yield
            case _:
                perform(step, role)
