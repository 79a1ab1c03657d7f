"""A launch that is recorded, and replayed with other data.

The convolutions of a network come back: the same text, grid and arguments. Where nothing that a kernel reads from
global memory decides what it does (`convc.machine.execute.repeat` says of which kernels that is known), the first
launch is executed and recorded. A further launch replays only what it did to data: its products, its passages through
segments and its tensor stores.

Layers that come back take 1.7 times as long without it.

Each cohort has a record. It is kept only if the cohort did nothing else to data, no finding was reported, and no
checker watches. Events may hand data on in shared memory, where only they may look at them (`SharedMemory.staged`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from convc.machine.lazy.evaluate import Products
from convc.machine.lazy.record import CohortRecord
from convc.machine.memory.init_mask import InitMask
from convc.machine.state.cohort import Cohort
from convc.machine.state.counters import Counters
from convc.machine.state.launch import Launch
from convc.machine.tma.load import TensorLoader

Key = tuple[object, ...]


class Event(ABC):
    """Something that threads did to data, besides products."""

    @property
    def read(self) -> list[tuple[int, int]]:
        """First column and how many of what they read from tensor memory, all lanes of it."""
        return []

    @abstractmethod
    def replay(self, cohort: Cohort) -> bool:
        """Do the same to the data of another cohort; False, and nothing has happened, where that is not plain."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """The record of a cohort that can be replayed.

    Attributes:
        key: what it depends on.
        events: in their order, on tensors without data.
        tensors: these, by the place of their map among the parameters.
        counters: of the cohort. width: columns of tensor memory that it had.
    """

    key: Key
    events: list[Products | Event]
    tensors: dict[int | bytes, TensorLoader]
    counters: Counters
    width: int


MOST_RECORDED = 4
"""Cohorts of a kernel whose records are kept: each holds where its products read every row of A and of B."""


def key_of(launch: Launch, first: int, ctas: int) -> Key | None:
    """Name all that the record of a cohort depends on besides the text; None where none is kept."""
    if not launch.repeats or launch.memory.watch is not None or launch.workspace or launch.findings:
        return None
    maps = tuple((at, name, loader.tmap) for at, (name, loader) in launch.tensor_maps.items())
    buffers = tuple((buffer.base, buffer.size) for buffer in launch.memory.by_name.values())
    arguments = (launch.params.tobytes(), maps, buffers)
    sizes = (first, ctas, launch.grid, launch.block, launch.cluster, launch.dynamic_shared)
    return (*sizes, launch.switches, *arguments)


def start_recording(cohort: Cohort) -> None:
    """Record from now on what a cohort does to data, and count for it alone."""
    if cohort.lazy is not None:
        cohort.counters = Counters()
        cohort.lazy.record = CohortRecord()
        cohort.shared.staged = InitMask(cohort.ctas, cohort.shared.padded)


def stop_recording(key: Key, cohort: Cohort, kept: dict[int, Recorded], first: int) -> None:
    """Count what a cohort did from CTA ``first`` on, and keep its record among others where it can be replayed."""
    record = None if cohort.lazy is None else cohort.lazy.record
    if record is None:
        return
    cohort.launch.counters.include(cohort.counters)
    kept.pop(first, None)
    found = _replayable(key, cohort, record)
    if found is not None and len(kept) < MOST_RECORDED:
        kept[first] = found


def _replayable(key: Key, cohort: Cohort, record: CohortRecord) -> Recorded | None:
    """The record of a cohort that has ended; None where it cannot be replayed."""
    launch = cohort.launch
    products = [event for event in record.events if isinstance(event, Products)]
    others = [event for event in record.events if isinstance(event, Event)]
    alone = not record.spoiled and not cohort.shared.seen and cohort.tensor.taken == len(products)
    passed = all(isinstance(at, int) for at in launch.tensor_maps)  # maps that lie in memory are data
    # Products with lane masks wait only where B is finite.
    if not alone or not passed or launch.findings or any(product.masked for product in products):
        return None
    summed = {column for product in products for column in _columns(product.key)}
    if not all(summed.issuperset(_columns(cells)) for event in others for cells in event.read):
        return None
    places = {id(loader): at for at, (_, loader) in launch.tensor_maps.items()}
    tensors = {at: _without_data(loader) for at, (_, loader) in launch.tensor_maps.items()}
    events: list[Products | Event] = []
    for event in record.events:
        if isinstance(event, Products):
            events.append(event.over(lambda own: tensors[places[id(own)]]))
        elif isinstance(event, Event):
            events.append(event)
    return Recorded(key, events, tensors, cohort.counters, cohort.tensor.width)


def _columns(cells: tuple[int, int]) -> range:
    first, count = cells
    return range(first, first + count)


def _without_data(loader: TensorLoader) -> TensorLoader:
    """An object that stands for the loaders of a map in all launches: a name that keeps no memory alive."""
    found = TensorLoader.__new__(TensorLoader)
    found.tmap = loader.tmap
    return found


def replay(kept: Recorded, cohort: Cohort) -> None:
    """Replay a record with the data of a cohort that has done nothing yet."""
    launch = cohort.launch
    own = {id(stand_in): launch.tensor_maps[at][1] for at, stand_in in kept.tensors.items()}
    counters = cohort.counters
    cohort.counters = Counters()  # those that passages count are among the kept ones
    cohort.tensor.width = kept.width
    for event in kept.events:
        if isinstance(event, Products):
            event.over(lambda stand_in: own[id(stand_in)]).perform(cohort.tensor, launch.workspaces)
        elif not event.replay(cohort):
            raise AssertionError("an event that was plain is not plain with the same addresses")
    counters.include(kept.counters)
