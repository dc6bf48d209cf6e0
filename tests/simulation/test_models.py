"""The simulated world is honest: its threads obey one seed, its topics are what they are in a broker."""

import pytest

from tests.simulation.broker import Broker
from tests.simulation.machine import Here
from tests.simulation.scheduler import Killed, Owner, Scheduler, Task


def _run(seed: int) -> list[str]:
    """What three threads do, in the order they do it."""
    scheduler, done = Scheduler(seed), list[str]()
    Here.scheduler = scheduler

    def work(name: str) -> None:
        for turn in range(4):
            scheduler.sleep(scheduler.random.random())
            done.append(f"{name}{turn}")

    for name in "abc":
        owner = Owner(name)
        scheduler.add(owner)
        Task(scheduler, owner, lambda name=name: work(name), "main").start()  # type: ignore[misc] # bound early
    scheduler.sleep(10.0)
    scheduler.close()
    return done


def test_a_seed_orders_threads_in_one_way() -> None:
    assert _run(3) == _run(3)
    assert 12 == len(_run(3))
    assert len({tuple(_run(seed)) for seed in range(8)}) > 1


def test_a_killed_thread_has_no_effect_any_more() -> None:
    scheduler, done = Scheduler(1), list[str]()
    owner = Owner("victim")
    scheduler.add(owner)

    def work() -> None:
        try:
            scheduler.sleep(5.0)
            done.append("lived")
        finally:
            with pytest.raises(Killed):
                scheduler.sleep(1.0)  # what a finally-block would do in the world

    Task(scheduler, owner, work, "main").start()
    scheduler.sleep(1.0)
    scheduler.kill(owner)
    scheduler.sleep(10.0)
    assert ([], []) == (done, owner.threads)


def test_a_frozen_thread_goes_on_where_it_stood_and_the_clock_does_not_wait() -> None:
    scheduler, seen = Scheduler(1), list[float]()
    owner = Owner("sleeper")
    scheduler.add(owner)

    def work() -> None:
        scheduler.sleep(2.0)
        seen.append(scheduler.now)

    Task(scheduler, owner, work, "main").start()
    scheduler.sleep(1.0)
    scheduler.freeze(owner)
    scheduler.sleep(30.0)
    assert seen == []
    scheduler.thaw(owner)
    scheduler.sleep(1.0)
    assert [31.0] == seen


def test_a_topic_made_again_is_another_one() -> None:
    Here.scheduler = Scheduler(1)
    broker = Broker(1)
    record, topic_id = broker.append(0, lambda _: b"{}"), broker.topic_id
    broker.recreate()
    assert (True, False) == (record.is_gone, topic_id == broker.topic_id)
    assert 0 == broker.append(0, lambda _: b"{}").offset
