"""Properties that are worked out once."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    once = cached_property
else:

    class once:
        """A `functools.cached_property` without its lock, which before Python 3.12 takes longer than a short method.

        Threads that ask at the same time may each work a value out: it must be the same whoever does.
        """

        def __init__(self, method: Any) -> None:
            self.method = method
            self.__doc__ = method.__doc__

        def __set_name__(self, owner: type, name: str) -> None:
            self.name = name

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            if instance is None:
                return self
            value = instance.__dict__[self.name] = self.method(instance)
            return value
