"""The parameters of the model of a chip: each with its unit, its source, how sure it is, and its range.

A chip is a TOML file in ``chips/``. It begins with the architectures whose kernels it times, ``targets = ["sm_100"]``,
and has a table for each part of the chip: ``[tma] fill = { value = 125, unit = "B/clk", class = "published",
source = "...", range = [122, 125] }``. In text a parameter is named ``tma.fill``.

A user's own file begins with ``base = "b200"``, the chip that it changes, and has those parameters that differ.

Banks of tensor memory: what their number means for rows that shift, for ``.ashift``, and for loads.

How tensor memory is built inside is not published. The settings of ``tmem.banks`` are hypotheses: the 512 columns
of a lane lie in 8 banks of 64 entries or in 4 banks of 128, column c in bank c mod 8 or c mod 4, and a bank reads and
writes one entry a cycle. From that follows, by counting the columns of a lane that share a bank (`turns`):

- ``tcgen05.shift`` moves 8 columns of a row by one lane (32 bytes; PTX manual). With 8 banks each holds one of them: 1
  cycle. With 4 banks each holds two: 2 cycles.
- ``.ashift`` writes back to the next lane what its MMA has read of A: it adds as many cycles to the MMA.
- A register of a 16x256b load takes columns 0, 2, 4 and 6 of a lane (PTX manual, "Data movement shapes"). In 8 banks
  these do not meet; in 4 banks two pairs do: such a load takes twice as long, as was published.

``published`` keeps the numbers of the chip: 12 cycles for a shift, 44 where ptxas wraps it in a loop over lanes, of
which 32 are the loop's whatever the banks are; a factor of 2 for 16x256b loads. What ``.ashift`` adds has been measured
by nobody; the chip assumes a shift's cycles.
"""

from __future__ import annotations

import functools
import tomllib
from collections import Counter
from collections.abc import Collection, Generator, Iterable, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import msgspec

from convc.errors import InputError
from convc.support.guessing import nearest
from convc.support.missing import is_missing, no_file

NAME = "tmem.banks"
"""The setting of a chip that chooses among `BANKS`."""

SHIFTED = range(8)
"""Columns of a lane that a shift moves."""

LOADED = (0, 2, 4, 6)
"""Columns of a lane that a register of a 16x256b load takes."""


def turns(columns: Collection[int], banks: int) -> int:
    """Cycles to reach some columns of a lane: the most of them that lie in one bank."""
    return max(Counter(column % banks for column in columns).values())


def _numbers(banks: int) -> Mapping[str, float]:
    """The parameters that follow from a number of banks."""
    shift = turns(SHIFTED, banks)
    return {
        "tensor_memory.shift": shift,
        "tensor_memory.ashift": shift,
        "tensor_memory.conflict": turns(LOADED, banks),
    }


BANKS: Mapping[str, Mapping[str, float]] = {"published": {}, "8x64": _numbers(8), "4x128": _numbers(4)}
"""The parameters that each setting replaces; the first is the default."""


FOLDER = Path(__file__).with_name("chips")

OWN = ".toml"
"""How the name of a user's own file ends."""

MOST_BYTES = 1 << 18
"""A file that is larger has no parameters."""

MOST = 1e12
"""No parameter is as large."""

USUAL: Mapping[str, str] = {"sm_90": "h200"}
"""The chip of an architecture that several have."""

CHOICES: Mapping[str, Mapping[str, Mapping[str, float]]] = {NAME: BANKS}
"""What is chosen by name: for each setting the parameters that it replaces. The first setting is the default."""

Evidence = Literal["measured", "published", "inferred", "assumed"]
"""How sure a number is: measured by us, measured by others, concluded from either, or assumed."""


class Parameter(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename={"evidence": "class"}):
    """One number of a chip.

    Attributes:
        value: the number, in ``unit``.
        unit: ``clk`` is a cycle of the SM clock, ``us`` a microsecond; ``1`` is a count.
        evidence: how sure it is; ``class`` in the file.
        source: who measured it, or how it was concluded.
        range: the least and the greatest value that the sources leave open.
    """

    value: float
    unit: str
    evidence: Evidence
    source: str
    range: tuple[float, float]


BY_USER = "set by the user"
"""The source of a parameter that a caller set."""


class Chip(msgspec.Struct, frozen=True, kw_only=True):
    """The parameters of a chip, by their full name.

    Attributes:
        name: one of `chips`, or a file.
        targets: architectures whose kernels it times, as ``sm_100``; its own is the first.
        parameters: its numbers.
        choices: the settings of `CHOICES` that differ from the default, by name.
    """

    name: str
    targets: tuple[str, ...]
    parameters: Mapping[str, Parameter]
    choices: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])

    def __getitem__(self, name: str) -> float:
        """The value of a parameter, by its full name; KeyError is a mistake of the model, not of its user."""
        return self.parameters[name].value

    def times(self, target: str) -> bool:
        """Whether a kernel of a target such as ``sm_100a`` can be timed.

        A target with a letter is for its own architecture, one without also for later ones (PTX manual, ``.target``).
        """
        plain = target.rstrip("af")
        return plain in self.targets or (plain == target and _number(target) <= _number(self.targets[0]))

    def changed(self, values: Mapping[str, float], source: str = BY_USER) -> Chip:
        """The chip with other values, whose class becomes assumed and whose range is the value alone."""
        parameters = dict(self.parameters)
        for name, value in values.items():
            parameters[name] = msgspec.structs.replace(
                parameters[name], value=value, evidence="assumed", source=source, range=(value, value)
            )
        return msgspec.structs.replace(self, parameters=parameters)

    def chosen(self, name: str, setting: str) -> Chip:
        """The chip with a setting of `CHOICES` in place of the default."""
        changed = self.changed(CHOICES[name][setting], f"{name}={setting}")
        others = {key: value for key, value in self.choices.items() if key != name}
        usual = setting == next(iter(CHOICES[name]))
        return msgspec.structs.replace(changed, choices=others if usual else others | {name: setting})


def chips() -> tuple[str, ...]:
    """Names of the chips that there are parameters for."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.toml")))


def chip_for(target: str) -> str:
    """The name of the chip to time kernels of a target on; that of ``sm_100`` where none has its architecture."""
    plain = target.rstrip("af")
    fits = [name for name in chips() if plain in _chip(name).targets]
    return USUAL.get(plain, fits[0]) if fits else chip_for("sm_100")


def check_target(chip: Chip, target: str, kernel: str) -> None:
    """Raise `InputError` where a kernel cannot be timed on a chip, whose architecture is another."""
    if not chip.times(target):
        fits = [name for name in chips() if _chip(name).times(target)]
        expected = f"expected chip {' or '.join(fits)}" if fits else "there is no chip for it"
        raise InputError(
            f"the kernel is for {target}, and chip {chip.name} is {chip.targets[0]}: {expected}",
            where=kernel,
            hint=f"leave --chip out, or compile with --target {chip.targets[-1]}a",
        )


def read_chip(name: str, settings: Iterable[str] = ()) -> Chip:
    """The parameters of a chip, some of them set otherwise.

    Args:
        name: one of `chips`, or the name of a user's own file, which ends in ``.toml``.
        settings: ``NAME=VALUE`` each, as in ``tma.fill=110`` or ``tma.fill=110 B/clk``, or ``tmem.banks=8x64``. The
            last of a name counts; a number counts whatever a choice says of it.

    Raises:
        InputError: there is no such chip, file, parameter or choice, the unit is another one, or the value is no number
            above zero.
    """
    chip = _own_chip(Path(name)) if name.endswith(OWN) else _known_chip(name)
    choices: dict[str, str] = {}
    values: dict[str, float] = {}
    for text in settings:
        key, right = _parts(chip, text)
        if key in CHOICES:
            choices[key] = _choice(key, right)
        else:
            values[key] = _value(key, chip.parameters[key].unit, right)
    for key, setting in choices.items():
        chip = chip.chosen(key, setting)
    return chip.changed(values)


@contextmanager
def computable(chip: Chip) -> Generator[None]:
    """Raise `InputError` where numbers that a user gave overflow, or leave nothing to divide by.

    Between 0 and 1e12 there are numbers that no chip can have, such as half an SM.
    """
    try:
        yield
    except ArithmeticError as problem:
        given = [name for name, entry in chip.parameters.items() if entry.source == BY_USER]
        if not given and chip.name in chips():
            raise
        told = f" with {', '.join(given)} as set" if given else ""
        raise InputError(
            f"no time can be computed on chip {chip.name}{told}: {problem.args[-1]}",
            hint="take values nearer to those of convc/timing/chips",
        ) from problem


def check_name(chip: Chip, name: str) -> None:
    """Raise `InputError` where a chip has neither a parameter nor a choice of a name."""
    known = [*chip.parameters, *CHOICES]
    if name not in known:
        raise InputError(f"chip {chip.name} has no parameter {name!r}{_guess(name, known)}")


def _known_chip(name: str) -> Chip:
    """One of `chips`."""
    if name not in chips():
        raise InputError(f"there is no chip {name!r}: expected one of {', '.join(chips())}{_guess(name, chips())}")
    return _chip(name)


def _own_chip(file: Path) -> Chip:
    """A chip with the parameters that a file changes."""
    where = str(file)
    if is_missing(file):
        raise no_file(file)
    try:
        if file.stat().st_size > MOST_BYTES:
            raise InputError(f"a file of parameters has at most {MOST_BYTES} bytes", where=where)
        tables = tomllib.loads(file.read_text(encoding="utf-8"))
        base = msgspec.convert(tables.pop("base", None), str)
        changes = msgspec.convert(tables, dict[str, dict[str, Parameter]])
    except OSError as problem:
        raise InputError(f"cannot read it: {problem.strerror}", where=where) from None
    except (tomllib.TOMLDecodeError, msgspec.ValidationError, UnicodeDecodeError) as problem:
        raise InputError(
            f"it is no file of parameters: {problem}", where=where, hint='begin with base = "b200", then tables'
        ) from None
    chip = _known_chip(base)
    parameters = dict(chip.parameters)
    for table, entries in changes.items():
        for key, entry in entries.items():
            name = f"{table}.{key}"
            check_name(chip, name)
            _check_own(name, entry, parameters[name].unit, where)
            parameters[name] = entry
    return msgspec.structs.replace(chip, name=where, parameters=parameters)


def _check_own(name: str, entry: Parameter, unit: str, where: str) -> None:
    """Raise `InputError` where a parameter of a file has another unit, or numbers that cannot be one."""
    if entry.unit != unit:
        raise InputError(f"{name} is in {unit}, got {entry.unit!r}", where=where)
    low, high = entry.range
    if not (0 < entry.value < MOST and 0 <= low <= entry.value <= high < MOST):
        raise InputError(
            f"{name} must be above 0 and below {MOST:g}, inside its range: got {entry.value} in {low} to {high}",
            where=where,
        )


@functools.cache
def _chip(name: str) -> Chip:
    """The parameters as the file has them."""
    tables = tomllib.loads((FOLDER / f"{name}.toml").read_text(encoding="utf-8"))
    targets = tuple(tables.pop("targets"))
    parameters = {
        f"{table}.{key}": msgspec.convert(entry, Parameter)
        for table, entries in tables.items()
        for key, entry in entries.items()
    }
    return Chip(name=name, targets=targets, parameters=parameters)


def _number(target: str) -> int:
    """The number of an architecture."""
    return int(target.removeprefix("sm_"))


def _parts(chip: Chip, text: str) -> tuple[str, str]:
    """What stands left and right of the sign in ``NAME=VALUE``."""
    name, equals, right = (part.strip() for part in text.partition("="))
    if not equals:
        raise InputError(f"expected NAME=VALUE, as in tma.fill=110, got {text!r}")
    check_name(chip, name)
    return name, right


def _choice(name: str, right: str) -> str:
    """One of the settings of a choice."""
    if right not in CHOICES[name]:
        raise InputError(
            f"{name} must be one of {', '.join(CHOICES[name])}, got {right!r}{_guess(right, CHOICES[name])}"
        )
    return right


def _value(name: str, unit: str, right: str) -> float:
    """The number in ``VALUE[ UNIT]``."""
    number, _, given = right.partition(" ")
    if given.strip() not in ("", unit):
        raise InputError(f"{name} is in {unit}, got {right!r}")
    try:
        value = float(number)
    except ValueError:
        raise InputError(f"{name} must be a number in {unit}, got {right!r}") from None
    if not 0 < value < MOST:
        raise InputError(f"{name} must be above 0 and below 1e12, got {number}")
    return value


def _guess(name: str, known: Iterable[str]) -> str:
    """What may have been meant, as the end of a sentence."""
    near = nearest(name, known)
    return "" if near is None else f"; did you mean {near}?"
