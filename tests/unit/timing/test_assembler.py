"""Machine instructions in place of the text's: control codes, ways through the code, loops over lanes, registers."""

from __future__ import annotations

from pathlib import Path

import pytest

from convc import ChipOptions, time
from convc.errors import ToolError
from convc.ir.launch import load_launch
from convc.timing.assembler import Assembly, assembled, assembly
from convc.timing.chip import Footprint, most_beside
from convc.timing.engine import Replay
from convc.timing.kernel import time_kernel
from convc.timing.parameters import read_chip
from convc.timing.sass import Sass, read_sass
from convc.timing.shares import sm_share
from convc.timing.trace import Item, Trace

GOLDEN = Path(__file__).resolve().parents[2] / "golden"
B200 = read_chip("b200")
LISTING = """
	.section	.text.other,"ax",@progbits
        /*0000*/                   EXIT ;   /* 0x000000000000794d */
                                            /* 0x000fea0003800000 */
	.section	.text.add,"ax",@progbits
	//## File ".nv_debug_ptx_txt", line 7
        /*0000*/                   S2R R0, SR_TID.X ;   /* 0x0000000000007919 */
                                                        /* 0x000e2e0000002100 */
.L_x_1:
        /*0010*/               @P0 BRA `(.L_x_1) ;      /* 0x00000000005c0947 */
                                                        /* 0x001fea0003800000 */
"""


def kernel(name: str) -> tuple[str, Path]:
    [text] = (GOLDEN / name).rglob("kernel.ptx")
    return text.read_text(), text.with_name("launch.json")


@pytest.fixture(scope="module")
def pointwise() -> Assembly:
    text, launch = kernel("pointwise_f16")
    return assembly(text, load_launch(launch).entry)


def test_control_codes_of_a_listing():
    first, last = read_sass(LISTING, "add")
    assert (first.opcode, first.line, first.stall, first.result, first.operands) == ("S2R", 7, 7, 0, None)
    assert (last.opcode, last.target, last.ends, last.stall, last.waits) == ("BRA", 1, False, 5, (0,))
    with pytest.raises(ToolError, match="no code of 'mul'"):
        read_sass(LISTING, "mul")


def test_our_kernels_have_no_loop_over_lanes(pointwise):
    assert pointwise.lane_loops == ()
    assert pointwise.spill_bytes == pointwise.stack_bytes == 0
    assert 32 <= pointwise.registers <= 128


def test_a_text_is_assembled_for_its_target():
    text, launch = kernel("hopper_f16")
    made = assembly(text, load_launch(launch).entry)
    assert sum(one.opcode.startswith("HGMMA") for one in made.code) >= 4


def test_a_thread_chosen_by_its_number_costs_loops_over_lanes():
    text, launch = kernel("pointwise_f16")
    chosen = ".reg .b32 %own; and.b32 %own, %thread, 31; setp.eq.u32 %one, %own, 0;"
    text = text.replace("elect.sync _|%one, 0xffffffff;", chosen)
    loops = assembly(text, load_launch(launch).entry).lane_loops
    assert {"UTMALDG", "UTCHMMA"} <= {loop.opcode for loop in loops}
    for loop in loops:
        assert "cp.async" in text.splitlines()[loop.line - 2] or "tcgen05" in text.splitlines()[loop.line - 1]
    assert all(20 <= loop.cycles <= 60 for loop in loops if loop.opcode == "UTCHMMA")


def test_what_is_seen_from_outside_stays(pointwise):
    text, launch = kernel("pointwise_f16")
    classes = time_kernel(text, load_launch(launch), {}, B200)
    machine = time_kernel(text, load_launch(launch), {}, B200, sass=True)
    assert machine.trace.works == classes.trace.works
    assert machine.trace.phases.keys() == classes.trace.phases.keys()
    assert machine.assembly == pointwise
    assert 0.6 < machine.cycles / classes.cycles < 1.2
    again = time_kernel(text, load_launch(launch), {}, B200, sass=True)
    assert again.cycles == machine.cycles


def test_registers_bound_how_many_ctas_an_sm_holds():
    assert most_beside(Footprint(shared_bytes=1024, columns=0, threads=256), B200) == 8
    assert most_beside(Footprint(shared_bytes=1024, columns=0, threads=256, registers=65), B200) == 3
    assert most_beside(Footprint(shared_bytes=1024, columns=0, threads=1024, registers=255), B200) == 1


def test_a_text_that_ptxas_refuses_is_a_sentence():
    text, launch = kernel("pointwise_f16")
    with pytest.raises(ToolError, match="ptxas refused the kernel"):
        time_kernel(text.replace("shr.u32 %warp", "shr.u33 %warp"), load_launch(launch), {}, B200, sass=True)


def test_the_public_option():
    _, launch = kernel("pointwise_f16")
    file = launch.with_name("kernel.ptx")
    [layer] = time(file, launch, chip=ChipOptions(sass=True)).layers
    assert layer.kernel.assembly is not None


def test_a_scoreboard_of_operands_does_not_wait_for_the_result():
    def sass(opcode: str, *waits: int, result: int | None = None, operands: int | None = None) -> Sass:
        return Sass(
            opcode=opcode,
            line=1,
            target=None,
            ends=opcode == "EXIT",
            stall=1,
            result=result,
            operands=operands,
            waits=waits,
        )

    code = [sass("LDG.E", result=4, operands=0), sass("IADD3", 0), sass("IADD3", 4), sass("EXIT")]
    item = Item(name="ld.global", step="", line=1, index=0, sectors=(1, 0), cached=(("x", 0),))
    trace = Trace(items={(0, 0): [item]}, works=[], phases={}, arrivals={}, ctas=1)
    replay = Replay(assembled(trace, code, [1]), B200, sm_share(B200, 1), 1)
    replay.run()
    load, reads, needs, _ = (event.start for event in replay.events)
    assert reads - load == B200["assembler.operands"]
    assert needs - load >= B200["threads.global_latency"]
