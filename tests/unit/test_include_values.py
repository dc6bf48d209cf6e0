"""The allow-list as answers change it: the pure step, and what the list in use counts and tells."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from millpond.include_values import AllowList
from millpond.include_values.answer import PollFailed, parse
from millpond.include_values.poller import pause_seconds
from millpond.include_values.state import Refusal, State, step
from millpond.records.value_list import Value
from tests.unit.fakes import metrics, value
from tests.unit.test_config import loaded

POLLS = 3


def some(values: Iterable[Value] = ()) -> frozenset[Value]:
    """These values; a text is one value for each letter."""
    return frozenset(values)


def state(pins: Iterable[Value] = (), remote: Iterable[Value] | None = None, **absences: int) -> State:
    counts: dict[Value, int] = dict(absences.items())
    return State(some(pins), None if remote is None else some(remote), counts)


def after(first: State, *answers: Iterable[Value]) -> State:
    """The state after these answers, none of which may be refused."""
    for answer in answers:
        outcome = step(first, frozenset(answer), POLLS)
        assert outcome.refusal is None
        first = outcome.state
    return first


def test_the_first_list_is_taken_as_it_is() -> None:
    outcome = step(state(pins="p"), some("abp"), POLLS)
    assert (some("abp"), some("ab")) == (outcome.state.values, outcome.state.managed)


def test_a_value_is_added_at_once() -> None:
    outcome = step(state(remote="ab"), some("abc"), POLLS)
    assert (some("c"), some(), some("abc")) == (outcome.added, outcome.removed, outcome.state.values)


def test_a_value_is_removed_after_so_many_answers_without_it() -> None:
    waiting = after(state(remote="abc"), "ab", "ab")
    assert (some("abc"), {"c": 2}) == (waiting.values, waiting.absences)
    outcome = step(waiting, some("ab"), POLLS)
    assert (some("c"), some("ab"), {}) == (outcome.removed, outcome.state.values, outcome.state.absences)


def test_a_value_that_is_listed_again_starts_from_nothing() -> None:
    assert some("abc") == after(state(remote="abc"), "ab", "ab", "abc", "ab", "ab").values


def test_a_single_answer_is_enough_where_one_is_asked_for() -> None:
    assert some("ab") == step(state(remote="abc"), some("ab"), 1).state.values


def test_a_pin_is_never_removed() -> None:
    left = after(state(pins="p", remote="pabc"), *["abc"] * (POLLS + 1))
    assert (some("pabc"), {}) == (left.values, left.absences)


@pytest.mark.parametrize(
    ("before", "answer", "refusal"),
    [
        (state(), "", "empty"),
        (state(remote="ab"), "", "empty"),
        (state(pins="p", remote="a"), "", "empty"),
        (state(remote="abc"), "a", "bulk_removal"),
        (state(remote="a"), "b", "bulk_removal"),
        (state(pins="pqr", remote="pqrab"), "pqr", "bulk_removal"),
        (state(remote="ab"), [1, 2], "type_flip"),
        (state(pins=[1]), "ab", "type_flip"),
        (state(pins=[1], remote=[2]), ["1", "2"], "type_flip"),
    ],
)
def test_an_answer_that_looks_like_lost_data_is_refused(
    before: State, answer: Iterable[Value], refusal: Refusal
) -> None:
    outcome = step(before, some(answer), POLLS)
    assert refusal == outcome.refusal
    assert before.values <= outcome.state.values
    assert some() == outcome.removed


@pytest.mark.parametrize(
    ("before", "answer"),
    [
        (state(pins="p"), ""),
        (state(pins="p", remote=""), ""),
        (state(remote="ab"), "a"),
        (state(remote="abcd"), "cd"),
        (state(pins="pqr", remote="pqra"), "a"),
        (state(pins=[1]), [2, 3]),
    ],
)
def test_an_answer_that_may_be_meant_is_accepted(before: State, answer: Iterable[Value]) -> None:
    assert step(before, some(answer), POLLS).refusal is None


def test_what_a_bulk_removal_adds_is_taken() -> None:
    outcome = step(state(remote="abc"), some("ax"), POLLS)
    assert (some("x"), some("abcx")) == (outcome.added, outcome.state.values)


def test_a_refused_answer_brings_no_removal_nearer() -> None:
    waiting = after(state(remote="abcde"), "abcd", "abcd")
    for answer in ("", "a", ""):
        waiting = step(waiting, some(answer), POLLS).state
    assert {"e": 2} == waiting.absences
    flipped = step(waiting, some([1]), POLLS)
    assert waiting is flipped.state


def test_a_value_in_a_refused_list_is_there_again() -> None:
    waiting = after(state(remote="abcde"), "abcd", "abcd")
    outcome = step(waiting, some("e"), POLLS)
    assert ("bulk_removal", {}) == (outcome.refusal, outcome.state.absences)


@given(
    st.frozensets(st.integers(0, 9)),
    st.lists(st.frozensets(st.integers(0, 9)), max_size=30),
    st.integers(1, 4),
)
def test_whatever_the_endpoint_answers_nothing_goes_without_its_absences(
    pins: frozenset[Value], answers: list[frozenset[Value]], polls: int
) -> None:
    """Against the history: what goes was missing in each of the last accepted answers."""
    now, accepted = State(pins), list[frozenset[Value]]()
    for answer in answers:
        outcome = step(now, answer, polls)
        assert pins <= outcome.state.values
        assert outcome.state.values == now.values - outcome.removed | outcome.added
        assert 2 * len(outcome.removed) <= len(now.managed)
        if outcome.refusal is None:
            accepted.append(answer)
        else:
            assert not outcome.removed
        for gone in outcome.removed:
            assert len(accepted) >= polls
            assert not any(gone in listed for listed in accepted[-polls:])
        if outcome.refusal in (None, "bulk_removal"):
            assert answer <= outcome.state.values
        now = outcome.state


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"[]", []),
        (b"[3, 1, 3]", [1, 3]),
        (b'["b","a"]', ["a", "b"]),
        (b'[1, "a"]', ["1", "a"]),
        (b"[1, true]", ["1", "true"]),
        (b"[1, 2.0, 1.5]", ["1", "2.0", "1.5"]),
        (b'["1", "2"]', ["1", "2"]),
        (b' [ "\\u00e9" ] ', ["é"]),
    ],
)
def test_a_list_is_all_integers_or_all_text(body: bytes, expected: list[Value]) -> None:
    values = parse(body)
    assert set(expected) == values
    assert {type(v) for v in expected} == {type(v) for v in values}


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "not JSON"),
        (b"[1", "not JSON"),
        (b"NaN", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b'{"values":[1]}', "JSON object"),
        (b'"a"', "JSON string"),
        (b"null", "JSON null"),
        (b"1", "JSON number"),
        (b"true", "JSON boolean"),
        (b"[1,[2]]", "element 1 of its answer is a JSON array"),
        (b"[{}]", "element 0 of its answer is a JSON object"),
        (b"[null]", "element 0 of its answer is a JSON null"),
    ],
)
def test_anything_else_is_a_failed_poll_with_its_reason(body: bytes, reason: str) -> None:
    with pytest.raises(PollFailed, match=reason):
        parse(body)


@given(st.one_of(st.binary(), st.recursive(st.text(), st.lists).map(lambda x: str(x).encode())))
def test_no_body_raises_anything_else(body: bytes) -> None:
    try:
        parse(body)
    except PollFailed:
        return


@pytest.mark.parametrize(
    ("failures", "is_settled", "chance", "expected"),
    [
        (0, True, 0.5, 60.0),
        (9, True, 0.0, 54.0),
        (0, True, 1.0, 66.0),
        (1, False, 0.5, 1.0),
        (2, False, 0.5, 2.0),
        (20, False, 0.5, 60.0),
        (10**6, False, 0.5, 60.0),
    ],
)
def test_polls_are_a_jittered_interval_apart_and_sooner_before_the_first_list(
    failures: int,
    is_settled: bool,  # noqa: FBT001 - a table of outcomes
    chance: float,
    expected: float,
) -> None:
    pause = pause_seconds(60, failures, is_settled=is_settled, random=lambda: chance)
    assert pytest.approx(expected) == pause


class Listed:
    """An allow-list and what it counted and told."""

    def __init__(self, *, mode: str = "authoritative", static: str = "", **environ: str) -> None:
        self.metrics = metrics()
        if static:
            environ["MILLPOND_FILTER_VALUES"] = static
        config = loaded(
            MILLPOND_FILTER_KEEP_FIELD_NAME="team",
            MILLPOND_INCLUDE_VALUES_URL="http://allow.list/?key=hunter2",
            MILLPOND_INCLUDE_VALUES_MODE=mode,
            **environ,
        )
        self.list = AllowList(config.filters, self.metrics, wall_clock=lambda: 1_700_000_000.0)

    def take(self, *answers: Iterable[Value]) -> list[dict[str, Any]]:
        """What is logged of these answers."""
        with capture_logs() as events:
            for answer in answers:
                self.list.take(some(answer))
        return [dict(event) for event in events]

    @property
    def values(self) -> tuple[Value, ...]:
        return self.list.current.values

    def shows(self, name: str, **labels: str) -> float | None:
        return value(self.metrics, f"millpond_include_values_{name}", **labels)


def test_an_authoritative_list_is_the_pins_and_what_is_listed_in_order() -> None:
    listed = Listed(static="30")
    listed.take([20, 3])
    assert (3, 20, 30) == listed.values
    shown = [listed.shows(name) for name in ("size", "pinned", "pinned_only", "pending_removals")]
    assert [3, 1, 1, 0] == shown
    assert 1_700_000_000 == listed.shows("last_success_timestamp_seconds")
    assert 1 == listed.shows("mode", mode="authoritative")


def test_a_shadow_list_compares_and_stays_with_its_static_values() -> None:
    listed = Listed(mode="shadow", static="1,2,3")
    listed.take([3, 4, 5, 6, 7])
    assert (1, 2, 3) == listed.values
    shown = [listed.shows(name) for name in ("size", "shadow_only_static", "shadow_only_remote")]
    assert [3, 2, 4] == shown
    assert 1 == listed.shows("mode", mode="shadow")


def test_the_list_in_use_is_replaced_only_when_it_changes() -> None:
    listed = Listed()
    listed.take([1, 2])
    before = listed.list.current
    listed.take([2, 1])
    assert before is listed.list.current


def test_changes_after_the_first_list_are_counted_and_named() -> None:
    listed = Listed(MILLPOND_INCLUDE_VALUES_REMOVAL_POLLS="2")
    listed.take([1, 2, 3])
    assert None is listed.shows("changes_total", action="add")
    events = listed.take([1, 2, 4, 5], [1, 2, 4, 5])
    assert (2, 1) == tuple(listed.shows("changes_total", action=action) for action in ("add", "remove"))
    assert [("add", 4), ("add", 5), ("remove", 3)] == [(e["action"], e["value"]) for e in events]


def test_of_many_changes_ten_are_named() -> None:
    listed = Listed()
    listed.take([0])
    events = listed.take(range(25))
    assert (10, 14) == (sum("value" in event for event in events), events[-1]["more"])


def test_a_pending_removal_is_shown() -> None:
    listed = Listed()
    listed.take([1, 2, 3], [1, 2])
    assert (1, 3) == (listed.shows("pending_removals"), listed.shows("size"))


def test_a_refused_list_is_counted_by_reason_and_is_no_success() -> None:
    listed = Listed(static="x")
    listed.take([1])
    assert (1, 0) == (
        listed.shows("refused_total", reason="type_flip"),
        listed.shows("last_success_timestamp_seconds"),
    )
    assert not listed.list.is_settled.is_set()
    assert ("x",) == listed.values


def test_a_failure_changes_nothing_and_is_told_once_until_it_is_another_one() -> None:
    listed = Listed()
    listed.take([1])
    with capture_logs() as events:
        for reason in ("status 500", "status 500", "no whole answer within 10 s"):
            listed.list.fail(reason)
    assert ["status 500", "no whole answer within 10 s"] == [event["trouble"] for event in events]
    assert (3, (1,)) == (listed.shows("poll_failures_total"), listed.values)
    (event,) = listed.take([1])
    assert ("info", 3) == (event["log_level"], event["failed_polls"])
    assert [] == listed.take([1])


def test_nothing_that_is_logged_shows_the_query_of_the_url() -> None:
    listed = Listed()
    with capture_logs() as events:
        listed.list.take(some([1]))
        listed.list.take(some([1, 2]))
        listed.list.fail("status 500")
    assert "hunter2" not in str(events)
    assert ["http://allow.list/"] * 3 == [event["url"] for event in events]
