"""Changes that nobody notices, each with the reason why that is right.

``same``: it makes another kernel that does the same; that says nothing about the checkers, and does not count. The
others are harmless here although the instruction has a meaning; they count among those that make another kernel, and
must stay few. Of these ``unseen`` ones alone alter an order on hardware: something depends on it, and no checker looks.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Excuse:
    """A kind of change that may survive.

    Attributes:
        change: pattern of the change's words, as `Change.what` has them.
        reason: why it does no harm.
        only: pattern that the kernel's text must have; ``{0}`` is the first group of ``change``.
        same: the change makes another kernel that does the same.
        unseen: it alters a result or an order on hardware on which something may depend.
    """

    change: str
    reason: str
    only: str = ""
    same: bool = True
    unseen: bool = False

    def covers(self, what: str, text: str) -> bool:
        """Whether a change of a kernel is of this kind."""
        found = re.search(self.change, what)
        if found is None:
            return False
        groups = (re.escape(group or "") for group in found.groups())
        return bool(re.search(self.only.format(*groups), text))


ONE_STEP = r"setp\.lt\.u32 %more, %k_step, 1;"
ONE_STAGE = r"tile a, \d+ rows of \d+ bytes, 1 stages"
WGMMA = r"wgmma\.mma_async"
HELD = r"%held<"
WRITTEN_OUT = rf"{WGMMA}|{HELD}"
"""Kernels whose loops over slabs and chunks are written out."""

ONE_TRIP = r"setp\.lt\.u32 %more, %{0}, 1;"
AROUND = r"// stage \d+ is next"
GLUON = r"\.entry gluon_pairs"

EXCUSES = (
    # What only lets others go on, or orders what is ordered already.
    Excuse(
        r"without .*tcgen05\.relinquish_alloc_permit",
        "it only lets another CTA of the SM allocate; nothing in this CTA depends on it",
        same=False,
        unseen=True,
    ),
    Excuse(
        r"without .*tcgen05\.fence::before_thread_sync; @start",
        "nothing but the allocation, which is synchronous, comes before it",
        same=False,
    ),
    Excuse(
        r"without .*tcgen05\.fence::after_thread_sync; @start",
        "roles that use tensor memory have a fence of their own behind a wait",
        same=False,
    ),
    Excuse(
        r"without .*tcgen05\.fence::after_thread_sync; @ready",
        "the role that multiplies has a fence of its own behind a wait",
        same=False,
    ),
    Excuse(
        r"without .*tcgen05\.fence::after_thread_sync; @mma(?!\.drained)",
        "the wait is for tensor copies, which are no tcgen05 operations",
        same=False,
    ),
    Excuse(
        r"without .*tcgen05\.fence::after_thread_sync; @mma\.drained",
        "the wait for the first stage has such a fence too, and nothing is multiplied before it",
        same=False,
    ),
    Excuse(
        r"without .*tcgen05\.fence::before_thread_sync; @end",
        "the last half of the accumulator was given back behind such a fence",
        only=r"barriers drained",
        same=False,
    ),
    # Numbers that may be others.
    Excuse(
        r"^31 -1 in \d+: shfl\.sync\.down\.b32 %m[12], .* @epilogue\.store",
        "lanes that copy are multiples of 4, and no lane behind 30 is the first or second one behind such a lane",
    ),
    Excuse(
        r"(?:48|32) \+1 in \d+: mad\.lo\.s32 %k, %tile_n, \d+, %column; @(?:epilogue|add)\.k",
        "it is for the test of channels alone, which come by eights up to a multiple of 8",
        only=r"// (?:persistent_f16|dynamic_f16|(?:hopper_)?split_k_f16|conv: 1x64x12x12 \* 80x64x3x3 )",
    ),
    Excuse(r"8 \+1 in \d+: setp\.ne\.u32 %skip, %warp, 8; @", "another warp of the warpgroup loads"),
    Excuse(r"0 \+1 in \d+: bar\.sync 0;", "all warps meet at one barrier, whatever its number"),
    Excuse(
        r"(\d) [+-]1 in \d+: bar\.sync (?:1, (?:128|256)|2, 160);", "another barrier that nobody uses while these meet"
    ),
    Excuse(r"(112|48|16) \+1 in \d+: and\.b32 %line,", "the last bits of a lane that was shifted to the left are 0"),
    Excuse(r"in \d+: setp\.ne\.u32 %skip, %warp, \d;", "another warp does the work of this role just as well"),
    Excuse(
        r"[+-]65536 in \d+: add\.u32 %word, %word, 0x0001",
        "the leading dimension byte offset of a K-major operand with a swizzle is not read",
    ),
    Excuse(r" \+1 in \d+: mov\.b32 %\w+, (0x[01]|\d{9})", "the sparsity selector is not read where A is dense"),
    Excuse(r" \+562949953421312 in ", "without a swizzle there is no pattern for the base offset to move"),
    Excuse(r"in \d+: setp\.lt\.(?:and\.)?s32 %in, %k,", "16 bytes of channels begin at multiples of 4 or 8"),
    Excuse(
        r"^0 [+-]1 in \d+: mov\.b(32 %res\d|16 %half|32 %wide), 0; @(?:epilogue|add)\.apply",
        "what stands in for a residual past the edges is added to values that are not stored",
    ),
    Excuse(r"^0 [+-]1 in \d+: cvt\.pack\.sat\.[us]8\.s32", "the next two values push its two bytes out of the word"),
    Excuse(r" \+8 in \d+: mov\.b32 %shape, ", "so few products of 8 bits never reach the ends of s32", r"kind::i8"),
    Excuse(r" @early\.", "other filters or biases are brought to L2 early, and no result depends on what L2 holds"),
    Excuse(
        r"^\d+ \+1 in \d+: setp\.lt\.u32 %in, %thread, \d+; @epilogue\.numbers$",
        "one number more, in the bytes behind them that nobody uses",
        r"(?s)tile numbers, 1 rows .*: nothing, which keeps other CTAs from the SM",
    ),
    # Kernels that share activations.
    Excuse(r"0 \+1 in \d+: setp\.eq\.u32 %one, %own, 0; @(masks|epilogue)", "another lane writes the word"),
    Excuse(
        r"3 \+1 in \d+: setp\.lt\.u32 %more, %(?:s|r|s_1), 3; @masks", "one more entry, which the next part overwrites"
    ),
    Excuse(
        r"3 \+1 in \d+: setp\.lt\.u32 %more, %[sr]_(?:first|next), 3; @epilogue",
        "one more entry, which the next part overwrites, or which comes where the next table will be",
    ),
    Excuse(
        r"0 \+1 in \d+: mov\.b32 %zero, 0; @(clear|epilogue)\.zero(_first)?",
        "the smallest subnormal number is lost in the first sum",
    ),
    Excuse(r"^128 -1 in .* @epilogue\.m$", "of two tiles a row the second starts late"),
    Excuse(
        r"^(31|120|30) -1 in .* @epilogue\.m$",
        "it decides which lanes have outputs, and none does otherwise",
        r"shift windows",
    ),
    Excuse(r"[2-5] [+-]1 in \d+: mad\.lo\.s32 %(t0|k_step), .* @mma\.k_step", "all that counts is whether it is 0"),
    Excuse(
        r"setp\.lt\.s32 %p[01], %t[14579], \d; @(?:epilogue|add)\.m$",
        "pixels past the last image have numbers past the limit",
    ),
    Excuse(
        r"^(\d+) \+1 in \d+: selp\.b32 %m, .* @(?:epilogue|add)\.m$",
        "a number past the last pixel is as good as another",
        r"GEMM {0} x",
    ),
    Excuse(
        r"(without|-8 in) .*mbarrier\.try_wait.* @load\.wait_a$",
        "three filter tiles come behind each activation tile, and their ring is so short that the last one of the "
        "activation tile which had this stage before has been waited for",
        r"(?s)\* \S+x3 ->.*Schedule (?:slide|shift).*"
        r"tile a, [^\n]* (?:2 stages.*tile b, [^\n]* [23] stages|[34] stages.*tile b, [^\n]* [2-6] stages)",
        same=False,
    ),
    Excuse(
        r"without .*mbarrier\.try_wait.* @mma\.wait_tmem$",
        "three filter tiles come behind each activation tile and there is room for two: what was multiplied two steps "
        "ago had to end before these activations were loaded",
        r"(?s)\* \S+x3 ->.*Schedule shift windows.*tile b, \d+ rows of \d+ bytes, 2 stages",
        same=False,
    ),
    Excuse(
        r"without .*mbarrier\.try_wait.* @mma\.wait_tmem$",
        "the rows of the tile in between moved behind these products, and that has been waited for",
        r"Schedule shift ashift",
        same=False,
    ),
    Excuse(r"mad\.lo\.s32 %tap, %r, \d, %s; @load\.tap", "the only filter row is number 0", r"\* \d+x\d+x1x\d "),
    Excuse(
        r"^6 [+-]1 in \d+: mul\.lo\.s32 %t\d, %window_r, 6; @load\.first_n",
        "windows that have pixels begin in the same images, and others past the last",
        r"conv: 2x64x3x24",
    ),
    Excuse(
        r"^23 [+-]1 in \d+: mad\.lo\.s32 %t2, %t3, 23, %lane; @epilogue\.m",
        "no lane that has a pixel comes into another image",
        r"conv: 2x64x3x24",
    ),
    Excuse(r"[+-]1 in \d+: mov\.b64 %from, .* @mma\.refresh", "four rows have no second group of eight"),
    Excuse(r"0x3fff -1 in \d+: and\.b32 %units", "shared memory starts at a multiple of 1024 bytes"),
    Excuse(
        r"8 [+-]1 in \d+: mad\.lo\.u32 %word, %(b_)?row(_\d)?, 8, %word; @mma\.multiply",
        "of a buffer with one filter column the row and the filter tile are number 0",
        "Schedule slide",
    ),
    Excuse(
        r"(without|-8 in) .*mbarrier\.try_wait.* @load\.wait_b$",
        "with one filter column a filter tile is free whenever its activation tile is, and that has been waited for",
        r"\* \d+x1\d\dx3x1 ",
        same=False,
    ),
    Excuse(
        r"@%wrap .* @mma\.next_b(?:_s[01])?$",
        "three stages for three columns: the ring goes round behind the last column alone",
        r"Schedule (?:stationary|shift windows)(?s:.*)tile b, [^\n]* 3 stages",
    ),
    Excuse(r"(1 \+1|2 -1|0 \+1) in .*%stage_tmem.* @mma\.next_tmem", "one tile in tensor memory does as well as two"),
    Excuse(r"0 [+-]1 in \d+: mov\.b32 %stage_order, 0;", "a ring of one barrier has no use for a stage"),
    Excuse(r"1 [+-]1 in \d+: (setp\.lt|sub)\.u32 %\w+, %entered_s0, 1", "no tile begins one column behind padding"),
    Excuse(r" -4 in .*ld\.shared\.b32 %tmem", "the word before is a mask of no lanes: 0, where tensor memory begins"),
    Excuse(r" \+1 in \d+: mov\.b32 %shape, 0x48", "the sparsity selector is not read where A is dense"),
    Excuse(
        r"in \d+: selp\.b32 %high, 0x0[02]0c0081, 0x0[02]0c0080, %in_padding;",
        "every tile begins in the padding of the first column, and none in that of the last",
        r"shared: 9x72x4x14 ",
    ),
    Excuse(r" [+-]1073741824 in \d+: mov\.b32 %shape, 0x[04]8", "the columns shift by less than they may"),
    Excuse(r" [+-]1 in \d+: mov\.b32 %low, 0;", "without padding there is no pattern to enter late"),
    Excuse(r" \+(256|65536) in \d+: mov\.b32 %high, 0x0[012]000000;", "without padding there are no runs"),
    Excuse(
        r"[+-]1 in \d+: setp\.lt\.and\.s32 %in, %m",
        "the last pixel, and the first past it, are in another of the eight columns",
    ),
    # Loops of one trip, rings of one stage.
    Excuse(r"^1 \+1 in \d+: setp\.eq\.u32 %wrap, 1, 0;", "which stage it is stands in the text: 2 is not 0 either"),
    Excuse(r"^0 \+1 in \d+: mov\.b32 %(\w+), 0;", "the counter of one trip is not used", ONE_TRIP),
    Excuse(r"^1 \+1 in \d+: add\.u32 %(\w+), %\1, 1;", "a loop of one trip ends at 2 as it does at 1", ONE_TRIP),
    Excuse(r"^1 -1 in \d+: setp\.lt\.u32 %more, %(\w+), 1;", "a loop is left behind its first trip all the same"),
    Excuse(r"mul\.lo\.s32 %column, %(chunk), ", "the only chunk begins at column 0, whatever its width", ONE_TRIP),
    Excuse(r"mul\.lo\.s32 %c, %(block), \d+; @load\.c", "the only block is number 0, whatever its width", ONE_TRIP),
    Excuse(
        r"%(slab), \d+(?:, \S+)?; @(?:load\.slab_k|epilogue\.(?:column|stage|store|slab_k))$",
        "the only slab is number 0",
        ONE_TRIP,
    ),
    Excuse(
        r"%column, 4, %smem; @epilogue\.(?:bias|scale)$", "the only slab begins at column 0", ONE_TRIP.format("slab")
    ),
    Excuse(r"%column, \d+, %smem; @epilogue\.sums$", "the only chunk begins at column 0", ONE_TRIP.format("chunk")),
    Excuse(
        r"mad\.lo\.u32 %(?:bar|to|word), %stage(_r)?, ",
        "the only stage is number 0, whatever it is multiplied by",
        r"barriers full{0}\[1\]",
    ),
    Excuse(
        r"@%wrap (?:mov|xor)\.b32 %(?:stage|phase)\w*, .* @load\.end_empty(?:_[abr])?$",
        "behind the last stage nobody waits",
        same=False,
    ),
    Excuse(
        r"(?:mad\.lo\.s32 %t0, %t2, 3, %t1|rem\.s32 %t7, %t6, 20); @(?:load|epilogue)\.tile_m$",
        "the first group, and the first of those that are cut short, are number 0",
        r"pointwise: 7x320x9x9",
    ),
    Excuse(r"xor\.b32 %phase, %phase, 1; @load\.end_empty$", "the only stage was waited for last", ONE_STAGE),
    Excuse(r"@(load\.wait|load\.next|mma\.release|mma\.next)$", "after one step nobody comes round the ring", ONE_STEP),
    Excuse(
        r"^\d+ \+1 in \d+: (?:@%mine )?mbarrier\.init\S* \[%\w+\+(\d+)\]",
        "nobody comes round the ring to wait for this stage: it would hang",
        r"%(?:smem|bar)\+{0}\], \d+;  // (?:empty|drained)",
    ),
    Excuse(
        r"\+1 in \d+: setp\.lt\.u32 %mine, %own, \d+; @init\.rings$",
        "one barrier more, in the bytes that are left in front of the lane masks: nobody uses it",
        r"\d+ lane masks of 16 bytes",
    ),
    Excuse(
        r" \+8 in .* @(?:load\.wait(_[abr])?|mma\.ready)$|^\d+ \+1 in \d+: mad\.lo\.u32 %bar, \d+, .* @mma\.ready$",
        "it waits for the next stage, which comes later: slower, and as safe",
    ),
    Excuse(r"^3 -1 in \d+: setp\.gt\.u32 %skip, %warp, 3;", "the last warp has no pixel", r"GEMM 49 x"),
    Excuse(
        r"@(?:load\.(?:wait|next)|epilogue\.(?:added|next))_r$",
        "a CTA of one tile fills each stage of the residual once",
        r"\A(?!(?s:.*) tiles each)(?s:.*)barriers empty_r",
    ),
    # Persistent CTAs.
    Excuse(
        r" \+8 in .*mbarrier\.try_wait.* @epilogue\.wait$",
        "it waits for the tile behind this one too: slower, and as safe; where there is none it would hang",
        r"barriers drained",
    ),
    Excuse(
        r"^(\d*[02468]) -1 in \d+: setp\.lt\.u32 %more, %tile, \d+; @mma\.tiles",
        "the first CTA of a pair multiplies, whose tiles have even numbers",
        r"at most \d tiles each, 2-CTA MMA",
    ),
    Excuse(r"%stage_masks, (8|96), .* @epilogue\.\w+_first", "the first table is number 0"),
    Excuse(r"(2 \+1|0 [+-]1) in .*%stage_masks.* @epilogue\.other_masks_first", "the table behind the first is there"),
    Excuse(
        r"%phase_acc, .* @(mma\.other)?$",
        "the role that multiplies waits for a half by the phase of its masks",
        r"lane masks of 16 bytes, 2 times",
    ),
    Excuse(r"%phase_masks, .* @(epilogue\.other_masks\w+)?$", "the role that signals does not ask for the phase"),
    Excuse(r"mov\.b32 %filled_(first|next), 0; @epilogue\.masks", "a block of one trip is not counted"),
    Excuse(
        r"(without|[+-]8 in) .*mbarrier\.try_wait.* @mma\.drained$",
        "residuals of the tile before came before these operands, and their places were free when all before was added",
        r"(?:at most \d tiles each|those that begin take over)(?s:.*)barriers empty_r",
        same=False,
    ),
    Excuse(r"mov\.b32 %before, 0;", "there is one first tile, and nobody asks for its number"),
    Excuse(r"^4 [+-]1 in .* %tile_k, 4; @epilogue\.numbers$", "the only tile of channels begins at number 0", HELD),
    Excuse(
        r"^8 [+-]1 in .* %stage_r, .* @epilogue\.(?:landed|added)_r$|@epilogue\.next_r$",
        "a tile goes once around the ring of its residual: its first slab is in the first stage, its last in the last",
        rf"(?s)barriers full_r\[(\d)\].* \1 slabs of the residual.*{HELD}",
    ),
    Excuse(
        r"0x08198490 \+131072 in \d+: mov\.b32 %shape, ",
        "eight more of the 128 columns that spans bring go where nobody reads",
        r"MN-major",
    ),
    Excuse(
        r"without .*fence\.proxy\.async\.shared::cta; @epilogue\.store$",
        "behind what it wrote each lane has such a fence when it gives back the place of the residual",
        r"(?s)step=epilogue\.stage .*step=epilogue\.added_r .*step=epilogue\.store ",
        same=False,
    ),
    # Split-K CTAs.
    Excuse(
        r"^\d+ [+-]1 in \d+: mad\.lo\.s32 %(?:kept|kept_first|counter), %tile_n, ",
        "the only tile of channels is number 0",
        r"; grid \d+ x 1 x \d+ in clusters",
    ),
    Excuse(
        r"^1 \+1 in \d+: setp\.lt\.u32 %more, %chunk, 1; @epilogue\.parts",
        "sums of more columns go where nobody reads",
        same=False,
    ),
    Excuse(
        r"^(\d+) (?:\+1 in \d+: add|-1 in \d+: setp\.lt)\.u32 .* @\w+\.share$",
        "every CTA has one part of the loop",
        r"add\.u32 %(\w+), %\1, {0};\s+setp\.lt\.u32 %more, %\1, {0};",
    ),
    Excuse(
        r"^(\d+) \+1 in \d+: setp\.gt\.or\.u32 %skip, %warp, \d+, %skip",
        "there is no warp behind the last",
        r"(?:leave|give): warps? (?:\d+ to )?{0};",
    ),
    Excuse(
        r"mad\.lo\.s32 %column, %chunk, .* @add\.column",
        "the only chunk is number 0",
        r"mov\.b32 %chunk, 0;\s+//@ step=add\.column",
    ),
    Excuse(r"mad\.lo\.s32 %k, .* @(?:add|epilogue)\.k$", "nobody asks for the channel", r"(?s:\A(?!.*%in, %k,))"),
    Excuse(r"^0 [+-]1 in \d+: mov\.b32 %v\d+, 0; @add\.add", "of lanes that have no pixel, and store nothing"),
    Excuse(r"\+1 in .* %row_in, %m, \d+; @add\.add", "the sums of a lane that has no pixel are not stored"),
    Excuse(r"mad\.lo\.s32 %column, %(chunk), .* @add\.column", "the only chunk is number 0", ONE_TRIP),
    Excuse(r"mad\.lo\.s32 %own, %(piece), .* @add\.own", "the only piece is number 0", ONE_TRIP),
    Excuse(r"^31 [+-]1 in \d+: shfl\.sync\.idx.* @add\.last", "lane 0 is read, which is below every bound"),
    Excuse(
        r"without .*bar\.sync 1, 128; @epilogue\.numbers",
        "the cluster meets before the numbers are read",
        r"barrier\.cluster",
        same=False,
    ),
    Excuse(r" -8 in .* @epilogue\.wait$", "the only stage is free when the accumulator is complete", ONE_STEP),
    # Kernels for Hopper.
    Excuse(r"without \d+: bar\.sync 0; @end\.sync", "shared memory stays until the last warp ends", WGMMA, same=False),
    Excuse(r"^1 -1 in \d+: wgmma\.wait_group", "it waits for more than it must: slower, and as safe", same=False),
    Excuse(
        r"(without|^0 \+1 in) .*wgmma\.wait_group.* @mma\.done",
        "with one stage all has been waited for before the stage is given back",
        ONE_STAGE,
        same=False,
    ),
    Excuse(
        r"^0 \+1 in \d+: setp\.eq\.u32 %one, %own, 0; @mma\.(?:release|last_empty)", "another lane of the warp arrives"
    ),
    Excuse(r"^(31|3) -1 in \d+: and\.b32 %t\d, %thread, .* @epilogue\.lane", "the last bit is shifted out", WGMMA),
    Excuse(r"mul\.lo\.s32 %t0, %chunk, \d+; @epilogue\.column", "the first chunk is number 0", WGMMA),
    Excuse(
        r"%(slab|chunk), \d+, .* @epilogue\.(column|apply_0|stage|store|slab_k)|%slab, \d+; @epilogue\.(column|slab_k)",
        "the first slab and the first chunk are number 0",
        WRITTEN_OUT,
    ),
    Excuse(
        r" @epilogue\.release$",
        "chunks are written out, and the accumulator is given back behind the last of them alone",
        r"(?s)step=epilogue\.chunks[^@]*mov\.b32 %chunk, 0;.*step=epilogue\.release.*step=epilogue\.release",
    ),
    Excuse(r"%i, \d+; @(load\.at_b|mma\.b_row)", "the first column of a buffer is number 0"),
    Excuse(
        r"^3 [+-]1 in \d+: rem\.u32 %(?:s|row), %t0, 3;|^16 [+-]1 in \d+: mad\.lo\.u32 %from, %s, 16, .* @mma\.mask$",
        "of a column that does not begin again the number is less than either, and of column 0 the mask is the first",
        r"mov\.b32 %i, 1;",
    ),
    Excuse(
        r"without .*wgmma\.fence\.sync\.aligned; @mma\.multiply",
        "nothing but wgmma of the same shape has used the accumulator since the fence of the column before",
        r"Schedule slide",
        same=False,
    ),
    Excuse(
        r"without .*cp\.async\.bulk\.commit_group; @epilogue\.store",
        "the commit of a later slab takes this copy along",
        WRITTEN_OUT,
        same=False,
    ),
    Excuse(
        r"without .*bar\.sync 1, 128; @epilogue\.numbers",
        "all warps meet again before they read the numbers",
        r"(?s)wgmma\.mma_async.*step=epilogue\.meet",
        same=False,
    ),
    Excuse(
        r"without .*bar\.sync 1, 128; @epilogue\.meet",
        "what a warpgroup multiplies is done for all its warps when one of them has waited for it",
        r"; 5 warps:",
        same=False,
    ),
    Excuse(r"%tile_n, 48, .* @epilogue\.out_byte", "these columns of the last tile are past the last channel", WGMMA),
    Excuse(r"%tile_n, 48(, %column)?; @(load\.first_k|epilogue\.k)", "there is one tile of channels", r"grid \d+ x 1;"),
    Excuse(r"(^31 -1 in .*shfl|^2 \+1 in .*and\.b32 %q).* @epilogue\.read", "columns past the last channel", WGMMA),
    Excuse(r"^[23] [+-]1 in .* @mma\.release_a(_\d)?_before", "all that counts is whether it is 0"),
    Excuse(
        r"(without|-8 in) .*mbarrier\.try_wait.* @load\.wait_b_[12]$",
        "in the part with one filter column a filter tile is free whenever its activation tile is",
        r"Schedule slide",
        same=False,
    ),
    Excuse(
        r"@(load\.wait_a|load\.next_a)$|^0 -1 in .*%release_a_before, 0|^3 -1 in .*selp\.b32 .* @mma\.release_a$",
        "nobody comes round the ring of activation tiles",
        r"shared_3x3_f16",
    ),
    Excuse(r"mad\.lo\.u32 %(bar|to|word), %stage, ", "one step takes the first stage alone", ONE_STEP),
    Excuse(
        r"mbarrier\.init\S* \[%smem\+(\d+)\]",
        "nobody uses the barriers of later stages",
        r"(?s)%smem\+{0}\], \d+;  // (?:full\[[1-9]|empty).*" + ONE_STEP,
    ),
    # Rings that the text goes around.
    Excuse(
        r"^\d+ [+-]1 in \d+: mad\.lo\.u32 %(bar|word|first_[ab]), 0, \d+, ",
        "the first stage: nothing times its size",
        AROUND,
    ),
    Excuse(r"selp\.b32 %bar, \d, %bar, %wrap; @mma\.release$", "the turn says which stage was before", AROUND),
    Excuse(
        r"^\d+ [+-]1 in \d+: mov\.b32 %k_step, \d+;|^0 [+-]1 in \d+: setp\.ne\.u32 %add, %k_step, 0;|"
        r"^1 \+1 in \d+: add\.u32 %k_step, %k_step, 1;|^\d+ -1 in \d+: setp\.lt\.u32 %more, %k_step, \d+; @mma\.k$",
        "all that counts is whether it is 0, in the first stage alone, and how many rounds go around the ring",
        AROUND,
    ),
    Excuse(
        r"((without|[+-]8 in) .*tcgen05\.commit|^\d+ [+-]1 in \d+: mad\.lo\.u32 %bar, \d+, ).* @mma\.release$",
        "nobody fills the stages of the last turns again",
        AROUND,
    ),
    # The hand-written kernels.
    Excuse(
        r"without 25: tcgen05\.fence::(before|after)_thread_sync; @$",
        "nothing but the allocation, which is synchronous, comes before it",
        same=False,
    ),
    Excuse(
        r"without 28: (bar\.sync 0|tcgen05\.fence::after_thread_sync);",
        "nothing was stored to tensor memory before",
        r"tcgen05\.mma\.ws",
    ),
    Excuse(
        r"[+-](65536|16777216|17179869184|34359738368) in \d+: mov\.b64 %zm",
        "with 64 rows there are two sub-masks, not four",
    ),
    Excuse(r" \+1073741824 in \d+: mov\.b32 %id", "the mask shifts by less than it may", r"tcgen05\.mma\.ws"),
    Excuse(
        r"134742032 \+131072 in 98: mov\.b32 %id", "40 columns, of which nobody reads the last eight", r"tcgen05\.shift"
    ),
    Excuse(r" [+-]4294967296 in \d+: mov\.b64 %a", "four rows have no second group of eight", r"tcgen05\.cp\S+4x256b"),
    # Another compiler's pair of CTAs.
    Excuse(r"without \d+: bar\.sync 0; @$", "the mbarriers around it order the same", GLUON),
    Excuse(
        r"without 476: barrier\.cluster\.wait", "all that crosses CTAs has been waited for before", GLUON, same=False
    ),
    Excuse(r"^15 [+-]1 in \d+: bfe\.u32", "shared addresses have zeros above bit 17", GLUON),
    Excuse(r"^(0|31) [+-]1 in \d+: shfl\.sync\.idx", "all lanes have the same number of their warp", GLUON),
    Excuse(r"6291456 \+1 in \d+: and\.b32", "a multiple of 2^21 has no lowest bit", GLUON),
)


def excuse(what: str, text: str) -> Excuse | None:
    """The reason for which a change of a kernel may survive; None where there is none."""
    return next((each for each in EXCUSES if each.covers(what, text)), None)
