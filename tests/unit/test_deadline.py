"""Deadlines come nearer and never move away; calls that outlive theirs are left behind."""

import threading
import time

import pytest

from millpond.deadline import Deadline, SideCalls, Watchdog
from millpond.errors import DeadlineExceeded, Exhausted
from tests.unit.fakes import GIVE_UP_SECONDS, FakeClock


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def test_what_remains_shrinks_with_the_clock_and_ends_at_zero(clock: FakeClock) -> None:
    deadline = Deadline(10, clock=clock)
    clock.advance(4)
    assert (6.0, 0.0) == (deadline.remaining(), deadline.seconds_past())
    clock.advance(9)
    assert (0.0, 3.0) == (deadline.remaining(), deadline.seconds_past())


def test_a_wait_is_cut_to_what_remains(clock: FakeClock) -> None:
    deadline = Deadline(10, clock=clock)
    assert 3.0 == deadline.cut(3.0)
    clock.advance(8)
    assert 2.0 == deadline.cut(3.0)


def test_it_can_come_nearer_but_never_moves_away(clock: FakeClock) -> None:
    deadline = Deadline(10, clock=clock)
    deadline.shorten(60)
    assert 10.0 == deadline.remaining()
    deadline.shorten(2)
    assert 2.0 == deadline.remaining()


def test_one_within_another_passes_with_whichever_passes_first(clock: FakeClock) -> None:
    outer = Deadline(10, clock=clock)
    short, long = outer.within(3), outer.within(60)
    assert (3.0, 10.0) == (short.remaining(), long.remaining())
    outer.shorten(2)
    assert (2.0, 2.0) == (short.remaining(), long.remaining())


def test_nothing_begins_after_it_has_passed(clock: FakeClock) -> None:
    deadline = Deadline(10, clock=clock)
    deadline.check("uploading")
    clock.advance(10)
    with pytest.raises(DeadlineExceeded, match="uploading") as refusal:
        deadline.check("uploading")
    assert isinstance(refusal.value, Exhausted)


def test_a_sleep_lasts_its_time(clock: FakeClock) -> None:
    began = time.monotonic()
    Deadline(60).sleep(0.05)
    assert 0.05 <= time.monotonic() - began < GIVE_UP_SECONDS


def test_a_sleep_ends_when_the_deadline_comes_nearer_meanwhile() -> None:
    deadline = Deadline(600)
    sleeper = threading.Thread(target=deadline.sleep, args=(600,), daemon=True)
    sleeper.start()
    deadline.shorten(0)
    sleeper.join(GIVE_UP_SECONDS)
    assert not sleeper.is_alive()


def test_a_side_call_hands_back_its_result() -> None:
    calls = SideCalls()
    assert calls.run(lambda: 7, Deadline(60), "answer") == 7
    assert 0 == calls.abandoned


def test_a_side_call_hands_back_its_failure() -> None:
    def fail() -> None:
        raise KeyError("broker")

    with pytest.raises(KeyError, match="broker"):
        SideCalls().run(fail, Deadline(60), "commit")


def test_a_side_call_that_outlives_its_deadline_is_left_behind_and_counted() -> None:
    calls, let_go = SideCalls(), threading.Event()
    try:
        with pytest.raises(DeadlineExceeded, match="offset commit"):
            calls.run(let_go.wait, Deadline(0.05), "offset commit")
        assert calls.abandoned == 1
    finally:
        let_go.set()


def test_a_side_call_does_not_begin_without_time(clock: FakeClock) -> None:
    begun: list[bool] = []
    deadline = Deadline(1, clock=clock)
    clock.advance(1)
    with pytest.raises(DeadlineExceeded):
        SideCalls().run(lambda: begun.append(True), deadline, "close")
    assert [] == begun


class Ending:
    """What os._exit would have been told."""

    def __init__(self) -> None:
        self.said = 0
        self.code: int | None = None
        self.came = threading.Event()

    def say(self) -> None:
        self.said += 1

    def end(self, code: int) -> None:
        self.code = code
        self.came.set()


def test_the_watchdog_speaks_and_ends_the_process_when_its_time_is_over() -> None:
    ending = Ending()
    Watchdog(ending.say, end=ending.end).arm(0.01, 3)
    assert ending.came.wait(GIVE_UP_SECONDS)
    assert (1, 3) == (ending.said, ending.code)


# The failure still reaches the thread's own hook afterwards, where pytest hears it.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_the_watchdog_ends_the_process_even_when_it_cannot_speak() -> None:
    ending = Ending()

    def fail() -> None:
        raise OSError("standard output is closed")

    watchdog = Watchdog(fail, end=ending.end)
    watchdog.arm(0.01, 3)
    timer = watchdog._timer
    assert timer is not None
    timer.join(GIVE_UP_SECONDS)
    assert 3 == ending.code


def test_a_disarmed_watchdog_ends_nothing() -> None:
    first, second = Ending(), Ending()
    watchdog = Watchdog(first.say, end=first.end)
    watchdog.arm(0.2, 3)
    watchdog.disarm()
    later = Watchdog(second.say, end=second.end)
    later.arm(0.3, 3)
    assert second.came.wait(GIVE_UP_SECONDS)
    assert not first.came.is_set()


def test_arming_again_replaces_the_earlier_end() -> None:
    ending = Ending()
    watchdog = Watchdog(ending.say, end=ending.end)
    watchdog.arm(600, 3)
    watchdog.arm(0.01, 4)
    assert ending.came.wait(GIVE_UP_SECONDS)
    assert (1, 4) == (ending.said, ending.code)


def test_a_call_is_left_behind_when_its_deadline_comes_nearer_meanwhile() -> None:
    """SIGTERM shortens the flush under way."""
    let_go, deadline = threading.Event(), Deadline(GIVE_UP_SECONDS)
    threading.Timer(0.05, deadline.shorten, args=(0.05,)).start()
    with pytest.raises(DeadlineExceeded, match="uploading"):
        SideCalls().run(lambda: let_go.wait(GIVE_UP_SECONDS), deadline, "uploading")
    let_go.set()
