"""Numbers that carry what they would be with other parameters: one replay says what each end of each range changes.

A `Spread` is a float, the number as the chip has it, with a lane for each other value of a parameter. Sums and products
are taken in all lanes, and so is the later of two times (`later`); everything else, such as who comes first at a unit,
goes by the float alone. So a lane is the time of a replay with that parameter as long as it changes no order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec
import numpy as np

from convc.timing.parameters import Chip

Lanes = np.ndarray | float
"""Values of all lanes, or one for all of them."""


class Spread(float):
    """A number with its values in all lanes; the first lane is the number itself."""

    __slots__ = ("lanes",)
    lanes: np.ndarray

    def __add__(self, other: float) -> Spread:
        return _made(self.lanes + lanes_of(other))

    __radd__ = __add__

    def __sub__(self, other: float) -> Spread:
        return _made(self.lanes - lanes_of(other))

    def __rsub__(self, other: float) -> Spread:
        return _made(other - self.lanes)

    def __mul__(self, other: float) -> Spread:
        return _made(self.lanes * lanes_of(other))

    __rmul__ = __mul__

    def __truediv__(self, other: float) -> Spread:
        return _made(self.lanes / lanes_of(other))

    def __rtruediv__(self, other: float) -> Spread:
        return _made(other / self.lanes)

    def __pow__(self, other: float, mod: None = None) -> Spread:  # pyright: ignore - float has more forms
        return _made(self.lanes ** lanes_of(other))


def _made(lanes: np.ndarray) -> Spread:
    made = Spread(lanes[0])
    made.lanes = lanes
    return made


def lanes_of(value: float) -> Lanes:
    """The lanes of a number; a number that has none is the same in all."""
    return value.lanes if type(value) is Spread else value


def later(one: float, other: float) -> float:
    """The larger of two numbers, in each lane."""
    if type(one) is Spread or type(other) is Spread:
        return _made(np.maximum(lanes_of(one), lanes_of(other)))
    return one if one >= other else other


def sooner(one: float, other: float) -> float:
    """The smaller of two numbers, in each lane."""
    if type(one) is Spread or type(other) is Spread:
        return _made(np.minimum(lanes_of(one), lanes_of(other)))
    return one if one <= other else other


def latest(values: Iterable[float]) -> float:
    """The largest of some numbers, in each lane; 0 of none."""
    found = list(values)
    spread = [value.lanes for value in found if type(value) is Spread]
    most = max((value for value in found if type(value) is not Spread), default=0.0)
    return later(_made(np.maximum.reduce(spread)), most) if spread else most


def where_later(one: float, other: float, then: float, otherwise: float) -> float:
    """``then`` where the first of two times is later, and else ``otherwise``, in each lane."""
    if any(type(value) is Spread for value in (one, other, then, otherwise)):
        return _made(np.where(lanes_of(one) > lanes_of(other), lanes_of(then), lanes_of(otherwise)))
    return then if one > other else otherwise


def later_anywhere(one: float, other: float) -> bool:
    """Whether the first of two numbers is larger in any lane."""
    if type(one) is Spread or type(other) is Spread:
        return bool(np.any(lanes_of(one) > lanes_of(other)))
    return one > other


def back_by(values: Sequence[float], count: float) -> float:
    """The value that is so many from the end, in each lane; 0 where there are fewer."""
    if type(count) is not Spread:
        return values[-int(count)] if len(values) >= count else 0.0
    found = np.array(np.broadcast_to(lanes_of(back_by(values, float(count))), count.lanes.shape))
    for lane in np.flatnonzero(count.lanes != count).tolist():
        value = lanes_of(back_by(values, float(count.lanes[lane])))
        found[lane] = value[lane] if isinstance(value, np.ndarray) else value
    return _made(found)


def spread_chip(chip: Chip, ends: Sequence[tuple[str, float]]) -> Chip:
    """A chip whose parameters are spread: lane 0 is the chip, lane i + 1 the chip with the i-th of some values."""
    parameters = dict(chip.parameters)
    lanes: Mapping[str, np.ndarray] = {name: np.full(len(ends) + 1, chip[name]) for name, _ in ends}
    for lane, (name, value) in enumerate(ends, 1):
        lanes[name][lane] = value
    for name, values in lanes.items():
        parameters[name] = msgspec.structs.replace(parameters[name], value=_made(values))
    return msgspec.structs.replace(chip, parameters=parameters)
