"""Asynchronous copies; importing this module registers them all."""

from __future__ import annotations

from convc.machine.ops import async_copies, bulk_copies, tensor_copies, tensormaps  # noqa: F401
