"""Vector clocks as arrays: what messages carry, what stays with a warp, and that nobody grows by listening."""

from __future__ import annotations

from convc.sanitizer.clocks import CARRIED, GENERIC, NEVER, SHARED, TENSOR, UNPUBLISHED, WEAK, ClockMessage, WarpClocks


def test_a_message_carries_the_later_time_of_each_component():
    one, other = ClockMessage(), ClockMessage()
    one.tell((GENERIC, WEAK), {3: 5, 0: 9})
    other.tell((GENERIC,), {3: 7, 40: 1})
    other.add(ClockMessage())
    one.add(other)
    assert [one.time(GENERIC, component) for component in (0, 3, 40, 1000)] == [9, 7, 1, NEVER]
    assert (one.time(WEAK, 3), one.time(SHARED, 3)) == (5, NEVER)


def test_what_a_warp_has_of_tensor_memory_stays_with_it_until_it_is_published():
    clocks, message = WarpClocks(2), ClockMessage()
    clocks.tell((UNPUBLISHED,), {5: 4})
    clocks.pass_on(UNPUBLISHED, TENSOR)
    message.add(clocks)
    assert (clocks.time(TENSOR, 5), message.time(GENERIC, 5)) == (4, NEVER)
    assert message.views.shape[0] == CARRIED
    clocks.publish()
    message.add(clocks)
    assert (message.time(GENERIC, 5), clocks.time(UNPUBLISHED, 5)) == (4, NEVER)


def test_two_who_hear_of_each_other_stay_as_large_as_what_they_know():
    one, other = WarpClocks(0), ClockMessage()
    one.tell((GENERIC,), {100: 1})
    for _ in range(10):
        other.add(one)
        one.add(other)
    assert one.views.shape[1] == other.views.shape[1] <= 2 * 100 + 1


def test_a_message_keeps_what_it_was_told_when_its_sender_learns_more():
    sender, message = WarpClocks(0), ClockMessage()
    sender.tick()
    message.add(sender)
    sender.tick()
    assert (message.time(GENERIC, 0), ClockMessage().time(GENERIC, 0)) == (1, NEVER)
