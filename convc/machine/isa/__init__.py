"""Semantics of the instruction forms, one short builder per family.

A builder takes a parsed instruction and the program it belongs to, resolves everything that can be resolved before
running (register slots, constants, modifiers), and returns a closure ``run(strand) -> None | int``. ``registry.OPS``
maps form names of the table in ``convc/ptx/forms`` to builders; a form
without an entry is refused before anything runs.
"""
