"""The rules by which the planner turns candidates down, by name, as `convc inspect` prints them.

They bring the planner, so that this module is imported where they are asked for.
"""

from __future__ import annotations

import inspect

from convc.compiler.plan.constraints import PROBLEM_RULES, TILING_RULES, WALK_RULES, spatial_axes
from convc.compiler.plan.multicast import whole_clusters
from convc.compiler.plan.pairs import pair_shape
from convc.compiler.plan.result_tile import result_pixels, result_rows
from convc.compiler.plan.split import kept_sums, shared_columns, shared_steps
from convc.compiler.schedules.all import sharing

MADE_LATER = {
    "target": "The target GPU lacks an instruction or a copy mode that the schedule needs.",
    "geometry": "A schedule has no pixel traversal for this convolution's geometry.",
    "reuse": "A schedule cannot share activations in this convolution: the reason says which of its conditions fails.",
    "results": "Tensor copies cannot store the results, or load the residual, of this schedule: the reason says why.",
    "proof": "A claim about the index maps of the schedule is refuted; the reason has the counterexample.",
    "persistent": "CTAs cannot be persistent here: the reason says which setup each tile would repeat.",
    "pairs": "2-CTA MMA is not possible here: the reason says what the target or the schedule lacks.",
    "split": "Split-K is not possible here: the reason says what the schedule or the store lacks.",
    "multicast": "Multicast is not possible here: the reason says why.",
    "emission": "The schedule was planned, but no kernel can be written for it.",
}
"""Rules that are no function of their own."""


def rejection_rules() -> dict[str, str]:
    """Explain the rules that a rejected candidate of `convc inspect` names, by that name."""
    own = [rule for each in sharing() for rule in getattr(each.method(each), "rules", ())]
    results = (result_rows, result_pixels)
    together = (pair_shape, whole_clusters, shared_steps, shared_columns, kept_sums)
    rules = [*PROBLEM_RULES, *WALK_RULES, *TILING_RULES, *results, *together, spatial_axes, *own]
    return MADE_LATER | {
        rule.__name__: " ".join((inspect.getdoc(rule) or "").replace("``", "").split()) for rule in rules
    }
