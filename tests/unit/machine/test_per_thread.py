"""Where an instruction looks at one thread, warp or CTA for many: each such place, and why it is right for all."""

from __future__ import annotations

import ast
from pathlib import Path

import convc.machine.isa as isa

ROOT = Path(isa.__file__).parent
CALLS = {"pick", "threads", "issue_groups", "warp_groups", "of_each_cta", "per_warp"}

CHECKED = "faults by name where active lanes differ"
EACH = "goes through every active thread"
GROUPS = "parts the threads into groups that agree"
TEXT = "for the text of a fault only"
ALIKE = "is used where all active threads have been found to agree, or one thread is active"

ALLOWED = {
    ("copies/bulk_copies.py", "run"): GROUPS,
    ("copies/bulk_copies.py", "_for_issuers"): GROUPS,
    ("copies/issue.py", "copy_target"): TEXT,
    ("copies/issue.py", "issue_groups"): EACH,
    ("copies/issue.py", "pick"): "takes the value of the group's own thread",
    ("copies/lines.py", "_by_channel"): ALIKE,
    ("copies/perform.py", "elected"): "the one thread that is active issues for itself",
    ("copies/tensor_copies.py", "_at_once"): ALIKE,
    ("copies/tensor_copies.py", "_copy_own"): ALIKE,
    ("copies/tensor_copies.py", "run"): GROUPS,
    ("copies/tensor_deferred.py", "_new"): ALIKE,
    ("copies/tensor_deferred.py", "own_places"): ALIKE,
    ("copies/tensor_deferred.py", "defer_in_clusters"): ALIKE,
    ("copies/tensor_stores.py", "_of_all"): GROUPS,
    ("copies/tensor_stores.py", "run"): GROUPS,
    ("float/narrow_floats.py", "pack_halves"): "the first half of a packed register, in all threads",
    ("memory/atomics.py", "_perform"): "the words of a 128-bit value, in all threads",
    ("memory/rows.py", "read_cluster"): "fills threads that do not load with the address of one that does",
    ("memory/rows.py", "read_rows"): "fills threads that do not load with the address of one that does",
    ("sync/barriers.py", "_arrive"): CHECKED,
    ("sync/control.py", "_keep_alike"): "splits off the warps and CTAs that differ from the first",
    ("sync/launch_control.py", "run"): GROUPS,
    ("sync/mbarriers.py", "_check_alone"): ALIKE,
    ("sync/parties.py", "_apart"): GROUPS,
    ("sync/parties.py", "of_each_cta"): ALIKE,
    ("sync/parties.py", "run"): GROUPS,
    ("tcgen05/alloc.py", "run"): CHECKED,
    ("tcgen05/collective.py", "warp_groups"): CHECKED,
    ("tcgen05/commit_wait.py", "run"): EACH,
    ("tcgen05/ld_st.py", "_put"): "writes a value that all threads have, where the array holds it once",
    ("tcgen05/ld_st.py", "_windows"): CHECKED,
    ("tcgen05/ld_st.py", "put"): "writes a value that all registers of all threads have",
    ("warp/wmma.py", "of"): CHECKED,
    ("tcgen05/mma.py", "_alone"): ALIKE,
    ("tcgen05/mma.py", "_lane_mask"): EACH,
    ("tcgen05/mma.py", "issues"): EACH,
    ("tcgen05/mma.py", "run"): EACH,
    ("threads.py", "active_only"): "fills inactive lanes with the address of an active one, for checks",
    ("threads.py", "per_warp"): CHECKED,
    ("threads.py", "warps_active"): ALIKE,
    ("wgmma/accumulate.py", "_fragments"): "the one matrix that a fragment holds",
    ("wgmma/accumulate.py", "_of_warps"): "the first warp, where all of the warpgroup have the same",
    ("wgmma/accumulate.py", "_table"): CHECKED,
    ("wgmma/multiply.py", "_shared"): CHECKED,
    ("wgmma/multiply.py", "_word"): CHECKED,
    ("wgmma/multiply.py", "word"): CHECKED,
}
"""(file, function), and why it is right for all threads."""


def looks_at_one(node: ast.AST) -> bool:
    """A call that takes the value of one thread, ``strand.active``, or the first element of a value."""
    match node:
        case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)):
            return name in CALLS
        case ast.Attribute(value=ast.Name(id="strand"), attr="active"):
            return True
        case ast.Subscript(value=ast.Attribute(attr="flat")):
            return True
        case ast.Subscript(slice=ast.Tuple(elts=[_, *_, ast.Constant(value=0)])):
            return True
    return False


def places() -> set[tuple[str, str]]:
    """(file, innermost function) of every such place in the instructions."""
    found: set[tuple[str, str]] = set()

    def visit(node: ast.AST, file: str, function: str) -> None:
        if isinstance(node, ast.FunctionDef):
            function = node.name
        if looks_at_one(node):
            found.add((file, function))
        for child in ast.iter_child_nodes(node):
            visit(child, file, function)

    for path in sorted(ROOT.rglob("*.py")):
        visit(ast.parse(path.read_text()), path.relative_to(ROOT).as_posix(), "")
    return found


def test_every_place_that_looks_at_one_thread_is_known():
    found = places()
    assert found - set(ALLOWED) == set()
    assert set(ALLOWED) - found == set()
