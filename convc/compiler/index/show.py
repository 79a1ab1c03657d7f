"""Index maps as text, for ``inspect``: plain lines, no markup."""

from __future__ import annotations

from convc.compiler.index.lower import translate
from convc.compiler.index.maps import IndexMap, guard_text
from convc.compiler.index.symbols import Axis


def map_lines(index_map: IndexMap) -> list[str]:
    """One map: name, axes with extents, results, and the conditions under which it holds."""
    names = ", ".join(name for name, _ in index_map.results)
    lines = [f"{index_map.name}({', '.join(map(_axis, index_map.domain))}) -> {names}"]
    lines += [f"    {name} = {translate(expr)}" for name, expr in index_map.results]
    lines += [f"    where {guard_text(condition)}" for condition in index_map.guard]
    return lines


def _axis(axis: Axis) -> str:
    first, last = axis.range
    return f"{axis.name} < {last + 1}" if first == 0 else f"{first} <= {axis.name} < {last + 1}"
