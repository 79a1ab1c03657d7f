"""Pictures of a layer, read back: lanes against what the simulator multiplies, memory against the plan."""

from __future__ import annotations

import numpy as np
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper, numpy_helper
from support.drawings import marked, parsed, table, words

import convc
from convc.cli.main import main
from convc.compiler.compile import compile_problem
from convc.draw.lanes import lanes_picture
from convc.draw.memory import memory_picture
from convc.draw.tile import tile_picture
from convc.draw.tile_order import grid_order, plan_order, tile_order_picture
from convc.errors import InputError
from convc.explain.example import example_tiles
from convc.ir.problem import ConvProblem
from convc.support.resources import model_folder

R = 1
S = 2
SHAPE = (2, 8, 9, 11)


@pytest.fixture(scope="module")
def impulse():
    """A convolution that copies the pixel at filter tap (R, S) to every output channel."""
    weights = np.zeros((8, 8, 3, 3), np.float16)
    weights[:, 0, R, S] = 1
    node = helper.make_node("Conv", ["x", "w"], ["y"], name="<script>", pads=[1, 1, 1, 1])
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT16, SHAPE)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT16, None)
    graph = helper.make_graph([node], "impulse", [x], [y], [numpy_helper.from_array(weights, "w")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


@pytest.mark.parametrize(("schedule", "shift"), [("shift", "chain"), ("slide", "auto"), ("reload", "auto")])
def test_lanes_hold_the_pixels_that_the_machine_multiplies(impulse, schedule, shift, tmp_path):
    """Every pixel has a value of its own: the simulator's output says which pixel its lane multiplied."""
    options = convc.ScheduleOptions(schedule=schedule, shift=shift)
    n, _, height, width = SHAPE
    x = np.zeros(SHAPE, np.float16)
    x[:, 0] = 1 + np.arange(n * height * width).reshape(n, height, width)
    build = convc.compile(impulse, tmp_path / "build", schedule=options)
    y = convc.run(build, x)
    found = convc.inspect(build)
    shown = 0
    for tile in range(found.tiles.count):
        for lane in marked(tile_picture(found.tiles.lanes(tile, R), S).svg(), "lane"):
            assert (lane["r"], lane["s"]) == (str(R), str(S))
            if "output" not in lane:
                assert lane["state"] == "idle"
                continue
            image, p, q = map(int, lane["output"].split(","))
            pixel = tuple(map(int, lane["pixel"].split(",")))
            held = 0 if lane["state"] in ("masked", "padding") else x[pixel[0], 0, pixel[1], pixel[2]]
            assert y[image, 0, p, q] == held, lane
            shown += 1
    assert shown == n * height * width
    assert "<script" not in memory_picture(found.plan).svg()


def test_the_picture_of_lanes_has_what_the_picture_of_the_tile_has():
    table = example_tiles().lanes(0)
    every = list(marked(lanes_picture(table).svg(), "lane"))
    for s in range(3):
        tile = sorted(marked(tile_picture(table, s).svg(), "lane"), key=lambda lane: int(lane["lane"]))
        assert tile == [lane for lane in every if lane["s"] == str(s)]
    (masked,) = (lane for lane in tile if lane["state"] == "masked")
    assert (masked["lane"], masked["pixel"], masked["needed"]) == ("8", "1,0,0", "0,0,9")


def test_lanes_lie_on_their_pixels():
    """Places in the picture are those on the image: equal steps for equal pixels."""
    root = parsed(tile_picture(example_tiles().lanes(0), 0).svg())
    places = {}
    for group in root:
        if group.get("data-lane"):
            n, _, w = map(int, group.get("data-pixel").split(","))
            box = next(part for part in group if part.tag.endswith("rect"))
            places.setdefault(n, set()).add(float(box.get("x")) - 28 * w)
    assert all(len(origins) == 1 for origins in places.values())


def test_there_is_no_such_filter_column():
    with pytest.raises(InputError, match="there is no filter column 3") as raised:
        tile_picture(example_tiles().lanes(0), 3)
    assert raised.value.hint == "filter columns of this layer: 0 to 2"


@pytest.mark.parametrize("schedule", ["reload", "shift"])
def test_memory_is_that_of_the_plan(impulse, schedule):
    plan = convc.inspect(impulse, schedule=convc.ScheduleOptions(schedule=schedule)).plan
    svg = memory_picture(plan).svg()
    storage = plan.storage
    drawn = {(each["smem"], each.get("stage")): each for each in marked(svg, "smem")}
    for tile in storage.smem:
        for stage in range(tile.stages):
            box = drawn.pop((tile.name, str(stage)))
            assert int(box["offset"]) == tile.offset + stage * tile.stage_bytes
            assert int(box["bytes"]) == tile.bytes
    for ring in storage.rings:
        for stage in range(ring.stages):
            box = drawn.pop((f"{ring.name} {stage}", None))
            assert (int(box["offset"]), int(box["bytes"])) == (ring.offset + 8 * stage, 8)
    last = max(int(box["offset"]) + int(box["bytes"]) for box in drawn.values())
    assert last == storage.smem_bytes
    columns = [(each["tmem"], int(each["column"]), int(each["columns"])) for each in marked(svg, "tmem")]
    assert columns == [
        (tile.name, tile.column_offset + stage * tile.columns, tile.columns)
        for tile in storage.tmem
        for stage in range(tile.stages)
    ]
    assert f"tensor memory, {storage.tmem_columns} of 512 columns are allocated" in words(svg)


def test_the_order_of_tiles_is_that_of_the_layers_grid():
    model = str(model_folder() / "tiny_conv.onnx")
    call = ["draw", "rasterization-order", model, "--schedule", "reload"]
    drawn = table(CliRunner().invoke(main, call, catch_exceptions=False).stdout, "grid")
    tiles_m, tiles_n, _ = convc.inspect(model, schedule=convc.ScheduleOptions(schedule="reload")).launch.grid
    assert drawn == [[str(row + tiles_m * column) for column in range(tiles_n)] for row in range(tiles_m)]
    problem = ConvProblem(in_channels=64, out_channels=80, in_extent=(20, 20), kernel=(1, 1))
    plan = compile_problem(problem, options=convc.ScheduleOptions(rasterization_order="hilbert"), block_n=16).plan
    drawn = table(tile_order_picture(plan_order(plan), 148).svg(), "grid")
    m, n = plan.launch.order.places.at(np.arange(20))
    assert [drawn[row][column] for row, column in zip(m, n, strict=True)] == [str(number) for number in range(20)]


@pytest.mark.parametrize(
    ("words", "grid", "sms", "order"),
    [
        (["--grid", "3x2"], (3, 2), 148, "rows"),
        (["--grid", "3x2", "--sms", "4", "--rasterization-order", "columns"], (3, 2), 4, "columns"),
        (["--grid", "5x3", "--sms", "1", "--rasterization-order", "hilbert"], (5, 3), 1, "hilbert"),
    ],
)
def test_the_order_that_is_asked_for_is_drawn(words, grid, sms, order):
    """Of a grid without a layer."""
    drawn = CliRunner().invoke(main, ["draw", "rasterization-order", *words], catch_exceptions=False).stdout
    assert drawn.rstrip() == tile_order_picture(grid_order(*grid, sms, order), sms).svg().rstrip()


@pytest.mark.parametrize("grid", ["3", "3x2x1", "3xb", "3x-2", "3x\u0662", "3x" + 10 * "9", "x"])
def test_a_grid_is_two_numbers(grid):
    ran = CliRunner().invoke(main, ["draw", "rasterization-order", "--grid", grid])
    assert ran.exit_code == 2
    assert "expected tiles along M and along N, such as 16x12, got" in ran.output


def test_a_chip_without_tensor_memory_has_none_in_the_picture(impulse):
    plan = convc.inspect(impulse, schedule=convc.ScheduleOptions(target="sm_90a")).plan
    svg = memory_picture(plan).svg()
    assert "no tensor memory" in words(svg)
    assert {each["smem"] for each in marked(svg, "smem")} >= {tile.name for tile in plan.storage.smem}
    assert list(marked(svg, "tmem")) == []
