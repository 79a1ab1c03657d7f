# ruff: noqa: E501
"""Changes of the code that puts numbers into formulas, and of the derivation: what `test_mutants` expects refused.

Each is (module or file, what stands there once, what stands there then).
"""

from __future__ import annotations

INDEX = "convc.compiler.index"
DERIVED = "convc.derived"
SCHEDULES = "convc.compiler.schedules"
PLAN = "convc.compiler.plan"

NUMBERS = [
    # pads, strides, dilations, extents
    (f"{DERIVED}.numbers", '"pad_h": problem.pad_lo[0]', '"pad_h": problem.pad_lo[1]'),
    (f"{DERIVED}.numbers", '"pad_w": problem.pad_lo[1]', '"pad_w": problem.pad_hi[1]'),
    (f"{DERIVED}.numbers", '"pad_w": problem.pad_lo[1]', '"pad_w": problem.pad_lo[1] + 1'),
    (f"{DERIVED}.numbers", '"u_h": problem.stride[0]', '"u_h": problem.stride[1]'),
    (f"{DERIVED}.numbers", '"d_h": problem.dilation[0]', '"d_h": problem.dilation[1]'),
    (f"{DERIVED}.numbers", '"u": problem.stride[1] // common', '"u": problem.dilation[1] // common'),
    (f"{DERIVED}.numbers", '"d": problem.dilation[1] // common', '"d": problem.stride[1] // common'),
    (f"{DERIVED}.numbers", '"g": common', '"g": 1'),
    (f"{DERIVED}.numbers", '"H": height', '"H": width'),
    (f"{DERIVED}.numbers", '"W": width', '"W": width + 1'),
    (f"{DERIVED}.numbers", '"P": out_h', '"P": out_w'),
    (f"{DERIVED}.numbers", '"Q": out_w', '"Q": out_h'),
    (f"{DERIVED}.numbers", '"R": taps_h', '"R": taps_w'),
    (f"{DERIVED}.numbers", '"S": taps_w', '"S": taps_h'),
    (f"{DERIVED}.numbers", '"N": problem.batch', '"N": 1'),
    (f"{DERIVED}.numbers", '"C": problem.group_channels', '"C": problem.in_channels - 1'),
    (f"{DERIVED}.numbers", '"K_g": problem.out_channels // problem.groups', '"K_g": problem.out_channels'),
    # tiles of the plain loop
    (f"{INDEX}.conv", '"BM": tiles.block_m', '"BM": tiles.block_n'),
    (f"{INDEX}.conv", '"BK": tiles.channels_per_step', '"BK": tiles.channels_per_step // 2'),
    (f"{INDEX}.conv", '"BLOCKS": tiles.blocks', '"BLOCKS": tiles.blocks + 1'),
    (f"{INDEX}.conv", '"TILES_M": tiles.m_tiles', '"TILES_M": tiles.m_tiles - 1'),
    (f"{INDEX}.conv", '"TILES_N": tiles.n_tiles', '"TILES_N": 1'),
    (f"{INDEX}.conv", '"C_PITCH": tiles.c_pitch', '"C_PITCH": tiles.k_pitch'),
    (f"{INDEX}.conv", '"K_PITCH": tiles.k_pitch', '"K_PITCH": problem.out_channels + 1'),
    (f"{INDEX}.conv", "max(1, tiles.n_tiles // problem.groups)", "max(1, tiles.n_tiles)"),
    (f"{INDEX}.conv", '"block": tiles.blocks,', '"block": 1,'),
    (f"{INDEX}.conv", '"tile_m": tiles.m_tiles,', '"tile_m": 1,'),
    (f"{INDEX}.conv", '"r": sizes["R"],', '"r": 1,'),
    # the walk: period, lead, buffers, corners
    (f"{INDEX}.reuse", '"T": walk.period', '"T": walk.period + 1'),
    (f"{INDEX}.reuse", '"lead": walk.lead', '"lead": walk.lead + 1'),
    (f"{INDEX}.reuse", '"Y": stream.image_rows', '"Y": stream.rows + 1'),
    (f"{INDEX}.reuse", '"TILES": geometry.tiles', '"TILES": geometry.tiles + 1'),
    (f"{INDEX}.reuse", '"TILES_M": geometry.all_tiles', '"TILES_M": geometry.tiles + 1'),
    (f"{INDEX}.reuse", '"USEFUL": tile.useful', '"USEFUL": tile.useful - 1'),
    (f"{INDEX}.reuse", '"BUFFERS": len(walk.buffers)', '"BUFFERS": 1'),
    (f"{INDEX}.reuse", '"HALO": max(', '"HALO": min('),
    (f"{INDEX}.reuse", '"TAPS": max(', '"TAPS": 1 + max('),
    (f"{INDEX}.reuse", '"lane": tile.lanes,', '"lane": 16,'),
    (f"{INDEX}.reuse", '"s": sizes["S"],', '"s": 1,'),
    (f"{INDEX}.row_walk", "min(reach, wrapping) - lead)", "min(reach, wrapping) - lead - 1)"),
    (f"{INDEX}.row_walk", 'lead = min(left) if border == "mask" else 0', "lead = max(left) + 1"),
    (f"{INDEX}.row_walk", "lanes=(s - members[0]) * d // u", "lanes=(s - members[0]) * d // u + (s > members[0])"),
    (f"{INDEX}.row_walk", "offset=members[0] * d", "offset=members[0]"),
    (f"{INDEX}.row_walk", "classes.setdefault(s * d % u, [])", "classes.setdefault(s % u, [])"),
    (f"{INDEX}.row_walk", "return self.problem.stride * self.lead - self.problem.pad", "return -self.problem.pad - 1"),
    (f"{INDEX}.row_walk", "self.problem.stride * self.period - self.problem.width", "self.problem.outputs"),
    (f"{INDEX}.row_walk", "return (first, last) if first <= last", "return (first + 1, last) if first <= last"),
    (f"{INDEX}.geometry", "pad=problem.pad_lo[1]", "pad=problem.pad_lo[0]"),
    (f"{INDEX}.geometry", "dilation=problem.dilation[1]", "dilation=problem.dilation[0]"),
    (f"{INDEX}.geometry", "stride=problem.stride[1]", "stride=problem.stride[0]"),
    (f"{INDEX}.geometry", "tiles=-(-one.length // tile.outputs)", "tiles=one.length // tile.outputs or 1"),
    (f"{INDEX}.geometry", "useful=WINDOW - halo", "useful=WINDOW - halo + 1"),
    # guards and masks
    (f"{INDEX}.maps", "if most < least or (", "if most <= least + 1 or ("),
    (f"{INDEX}.lane_masks", "_within(held, maps.problem.batch * height))", "_within(held, height))"),
    (f"{INDEX}.lane_masks", "need, width)", "need, width - 1)"),
    (f"{INDEX}.lane_masks", "need, height)", "need, height + 1)"),
    (f"{INDEX}.lane_masks", "Const(0), masked)", "masked, Const(0))"),
    # what evaluates formulas
    (f"{DERIVED}.record", "return intexpr.add(*terms, number_of(self.constant, sizes))", "return intexpr.add(*terms)"),
    (f"{DERIVED}.record", "floor_div(dividend, divisor) if quotient else intexpr.mod(", "floor_div(dividend, divisor) if quotient else intexpr.floor_div("),
    (f"{DERIVED}.record", "        total += first\n    return total", "        total = first\n    return total"),
    (f"{INDEX}.smaller", "return _quotient(a, b * inner)", "return _quotient(a, b)"),
    (f"{INDEX}.smaller", "if low // divisor == high // divisor:", "if low // divisor == 0:"),
    (f"{INDEX}.smaller", "return Mod(x, Const(b))", "return x"),
    (f"{SCHEDULES}.split", 'stride=derived.number("counted", "stride")', 'stride=1 + derived.number("counted", "stride")'),
    (f"{SCHEDULES}.split", 'limit=derived.number("counted", "limit")', 'limit=derived.number("counted", "limit") - 1'),
    # filter taps, rows, channels
    (f"{SCHEDULES}.sharing.indexing", 'read("tap", "tap", "tap",', 'read("tap", "c", "c",'),
    (f"{SCHEDULES}.sharing.indexing", 'read("c", "c", "c",', 'read("c", "pack", "c",'),
    (f"{SCHEDULES}.sharing.indexing", '["start_n"] = result_of(maps.start, "row"', '["start_n"] = result_of(maps.start, "w"'),
    (f"{SCHEDULES}.reload", 'off_w=result_of(step, "off_w", "off_w")', 'off_w=result_of(step, "off_h", "off_w")'),
    (f"{SCHEDULES}.reload", 'tap=result_of(step, "tap", "tap")', 'tap=result_of(step, "k_step", "tap")'),
    (f"{SCHEDULES}.reload", 'first = result_of(derived.map("first_k"), "k", "first_k").value', 'first = result_of(derived.map("first_k"), "k", "first_k").value + 8'),
    (f"{SCHEDULES}.reload", "row_limit=layout.problem.gemm_m if", "row_limit=layout.problem.gemm_m - 1 if"),
    (f"{SCHEDULES}.reload", "channel_limit=layout.k_pitch if", "channel_limit=layout.problem.out_channels - 8 if"),
    (f"{SCHEDULES}.nesting", '"PIECE": tiling.b_piece', '"PIECE": tiling.b_piece * 2'),
    (f"{SCHEDULES}.nesting", '"ELEMENT": layout.problem.out_dtype.bytes', '"ELEMENT": 4'),
    # tensor maps
    (f"{PLAN}.loads", "element_strides=(1, *reversed(layout.problem.stride), 1)", "element_strides=(1, *layout.problem.stride, 1)"),
    (f"{PLAN}.loads", "tuple(-lo for lo in problem.pad_lo), tuple(upper)", "tuple(-lo for lo in problem.pad_hi), tuple(upper)"),
    (f"{PLAN}.loads", "(hi - (span - 1) for", "(hi - span for"),
    (f"{PLAN}.loads", "steps = (*steps, reuse.stream.step)", "steps = (*steps, 1 + reuse.stream.step)"),
    (f"{PLAN}.loads", "steps = (1, layout.problem.stride[1])", "steps = (1, layout.problem.stride[0])"),
    # loops: which, in which order, how often, and what they read
    (f"{PLAN}.candidates", "blocks=-(-layout.c_pitch // channels)", "blocks=layout.c_pitch // channels or 1"),
    (f"{PLAN}.candidates", "taps=image_axes(layout.problem.kernel)", "taps=image_axes(layout.problem.kernel[::-1])"),
    (f"{INDEX}.kernel_nest", "count = min(count, room // step + 1)", "count = min(count, room // step)"),
    (f"{INDEX}.kernel_nest", "return math.prod(loop.count for loop in self.mainloop)", "return self.mainloop[0].count"),
    (f"{SCHEDULES}.nesting", "count=first.count, body=steps", "count=first.count - (first.count > 1), body=steps"),
    (f"{SCHEDULES}.nesting", 'return _inside(role, tuple(loops), levels', 'return _inside(role, tuple(loops)[:: -1 if role == "mma" else 1], levels'),
    (f"{SCHEDULES}.sharing.roles", "count=tile.taps,\n        body=about(column", "count=tile.taps + 1,\n        body=about(column"),
    (f"{SCHEDULES}.sharing.slide", "count=tile.taps", "count=max(1, tile.taps - 1)"),
    (f"{SCHEDULES}.sharing.buffers", '"read", "row", tap=self.turn(position)', '"read", "row", tap=position'),
    (f"{SCHEDULES}.sharing.buffers", 'return self.nest.value("s", "s", tap=self.turn(position))', 'return self.nest.value("s", "s", tap=position)'),
    (f"{SCHEDULES}.reload", "count=nest.turns, body=body", "count=nest.turns + 1, body=body"),
]  # fmt: skip
"""Of the compiler."""

DERIVATION = [
    # formulas
    ("nests.py", '"h": z.u_h * space["p"] + z.d_h * space["r"] - z.pad_h', '"h": z.u_h * space["p"] + z.u_h * space["r"] - z.pad_h'),
    ("nests.py", '"w": z.u_w * space["q"] + z.d_w * space["s"] - z.pad_w', '"w": z.u_w * space["q"] + z.d_w * space["s"] - z.pad_h'),
    ("nests.py", '"c": space["group"] * z.C_PITCH + space["c"]', '"c": space["group"] * z.K_g + space["c"]'),
    ("kernels.py", 'tap = space["r"] * z.S + z.s', 'tap = z.s * z.S + space["r"]'),
    ("kernels.py", "place = z.m * z.K_PITCH + z.k", "place = z.m * z.K + z.k"),
    ("kernels.py", "k_step = tap * z.BLOCKS +", "k_step = tap * z.BK +"),
    ("kernels.py", "number = (image * z.P + y) * z.Q + x + z.lane", "number = (image * z.P + y) * z.P + x + z.lane"),
    ("kernels.py", 'start = {"w": z.u_w * Mod(first, z.T) - z.pad_w', 'start = {"w": z.u_w * Mod(first, z.T) - z.pad_h'),
    ("kernels.py", 'return {"row": z.u_h * start["row"] + down}', 'return {"row": start["row"] + down}'),
    ("kernels.py", "moved = {z.tap: FloorDiv(z.s, z.u), z.buffer: Mod(z.s, z.u)}", "moved = {z.tap: FloorDiv(z.s, z.d), z.buffer: Mod(z.s, z.u)}"),
    ("kernels.py", '"passed": number - z.T * FloorDiv(', '"passed": number - z.Q * FloorDiv('),
    ("reuse.py", "J = z.tap * z.d\n", "J = z.tap * z.u\n"),
    ("reuse.py", "across = z.u_w * (z.lead + Mod(number, z.T)) + z.d_w * z.buffer - z.pad_w\n    if", "across = z.u_w * Mod(number, z.T) + z.d_w * z.buffer - z.pad_w\n    if"),
    ("reuse.py", 'pixel_of({"n": z.n, "p": z.p, "q": z.q + z.d,', 'pixel_of({"n": z.n, "p": z.p, "q": z.q + z.u,'),
    ("reuse.py", "line = z.u_h * row + down\n    return {", "line = row + down\n    return {"),
    # conditions of theorems
    ("reuse.py", "[at_most(0, z.q + J - z.lead), below(z.q + J - z.lead, z.T)]", "[at_most(0, z.q + J - z.lead)]"),
    ("reuse.py", "[below(z.q + J, z.lead), below(", "[below(z.q + J, z.T), below("),
    ("reuse.py", "[at_most(z.T + z.lead, z.q + J), at_most(", "[at_most(z.T, z.q + J), at_most("),
    ("reuse.py", "[below(inside, z.USEFUL), at_most(J, z.HALO), at_most(z.USEFUL", "[below(inside, z.USEFUL), at_most(z.USEFUL"),
    ("reuse.py", "        at_most(z.q + J, z.Q + z.HALO - 1),\n", ""),
    ("rewrites.py", "[below(inner.axis, by)],\n    )\n    reach", "[],\n    )\n    reach"),
    ("rewrites.py", "[below(fast.axis, cycle)],", "[],"),
    # what a problem has to meet
    ("reuse.py", "    conditions = (\n        at_most(z.lead, 0,", "    conditions = (\n        at_most(0, z.lead,"),
    ("rewrites.py", 'reach = at_most(extent, outer.extent * by,', 'reach = at_most(extent, 2 * outer.extent * by,'),
    ("reuse.py", "(at_most(last, z.T + z.lead), at_most(z.W", "(at_most(z.Q, z.T + z.lead), at_most(z.W"),
    # loops and rewrites
    ("rewrites.py", "number = number * period + digit", "number = number + period * digit"),
    ("rewrites.py", "number = outer.axis * inner.extent + inner.axis", "number = outer.axis + inner.extent * inner.axis"),
    ("rewrites.py", "weight = weight * period\n    values", "weight = weight + period\n    values"),
    ("rewrites.py", "return reindexed(nest, step, (old,), (fast, slow), {old: number}, [below(number, extent)])", "return reindexed(nest, step, (old,), (fast, slow), {old: number})"),
    ("reuse.py", "return done(nest, step, load=load, read=z.lane, move=", "return done(nest, step, load=load, move="),
    ("forms.py", "(z.tile_m, z.tile_n, z.r, z.s, z.block, z.lane, z.column, z.e)", "(z.tile_m, z.r, z.tile_n, z.s, z.block, z.lane, z.column)"),
    ("forms.py", 'nest = mask(nest) if border == "mask" else zeroed(nest)', "nest = nest if rows == \"merged\" else zeroed(nest)"),
]  # fmt: skip
"""Of `convc.derive`."""
