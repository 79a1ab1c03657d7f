"""Work inside work: each says 0 to 1, and the whole goes from 0 to 1."""

from __future__ import annotations

from convc.support.progress import SILENT, Progress


def test_parts_of_parts_make_one_whole():
    told = []
    whole = Progress(lambda what, share: told.append((what, share)))
    whole("read", 0.0)
    rest = whole.part(0.1, 1.0)
    for index in range(3):
        step = rest.piece(index, 3).under(f"layer {index}")
        for done in (1, 7):
            step.launch("run")(done, 7)
    shares = [share for _, share in told]
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (0.0, 1.0)
    assert [what for what, _ in told] == ["read", *(f"layer {index}: run" for index in (0, 0, 1, 1, 2, 2))]


def test_neighbours_meet():
    told = []
    whole = Progress(lambda _, share: told.append(share))
    for index in range(7):
        whole.piece(index, 7)("", 1.0)
        whole.piece(index + 1, 7)("", 0.0)
    assert told[0::2] == told[1::2]


def test_nobody_need_listen():
    SILENT.part(0.0, 0.5).under("name")("what", 0.5)


def test_progress_can_be_handed_on_as_a_function():
    told = []
    Progress(Progress(lambda what, share: told.append((what, share))))("now", 0.5)
    assert told == [("now", 0.5)]
