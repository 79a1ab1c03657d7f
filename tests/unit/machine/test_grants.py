"""Which of the clusters that wait one gets that asks."""

from __future__ import annotations

import pytest

from convc.machine.state.grants import Grants


def taken(policy: str, seed: int = 0, count: int = 5) -> list[int | None]:
    grants = Grants(policy, seed, range(10, 10 + count))
    return [grants.take() for _ in range(count + 1)]


@pytest.mark.parametrize(
    ("policy", "order"),
    [
        ("ordered", [10, 11, 12, 13, 14, None]),
        ("reversed", [14, 13, 12, 11, 10, None]),
        ("none", [None] * 6),
    ],
)
def test_clusters_are_given_in_the_order_of_the_policy(policy, order):
    assert taken(policy) == order


def test_a_seed_gives_any_order_and_the_same_again():
    orders = {tuple(taken("seeded", seed)) for seed in range(8)}
    assert len(orders) == 8
    assert tuple(taken("seeded", 3)) in orders
    given = [number for number in taken("seeded", 3, 200) if number is not None]
    assert len(set(given)) == len(given) < 200


def test_clusters_begin_in_runs_and_those_given_away_do_not():
    grants = Grants("ordered", 0, range(8), 2)
    begun = grants.begin(3, 100)
    assert next(begun) == (0, 6)
    assert [grants.take(), grants.take()] == [3, 4]
    assert list(begun) == [(10, 6)]
