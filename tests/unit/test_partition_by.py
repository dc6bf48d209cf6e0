"""The grammar of HOGLAKE_PARTITION_BY (behaviour 1.3)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.partition_by import PartitionTerm, parse_partition_by

NAMES = st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_]{0,20}", fullmatch=True)
PLAIN = st.builds(PartitionTerm, NAMES, st.sampled_from(["identity", "year", "month", "day", "hour"]))
BUCKETS = st.builds(PartitionTerm, NAMES, st.just("bucket"), st.integers(1, 2**31 - 1))
TERMS = st.lists(st.one_of(PLAIN, BUCKETS), min_size=1, max_size=6, unique=True)


@given(TERMS)
def test_terms_survive_being_written_and_read(terms: list[PartitionTerm]) -> None:
    assert tuple(terms) == parse_partition_by(", ".join(map(str, terms)))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("carrier", [PartitionTerm("carrier")]),
        ("identity(carrier)", [PartitionTerm("carrier")]),
        ("DAY(t)", [PartitionTerm("t", "day")]),
        (" Bucket ( id , 16 ) ", [PartitionTerm("id", "bucket", 16)]),
        (
            "carrier,day(time_hour), bucket(id,8)",
            [PartitionTerm("carrier"), PartitionTerm("time_hour", "day"), PartitionTerm("id", "bucket", 8)],
        ),
        (",a,, b ,", [PartitionTerm("a"), PartitionTerm("b")]),
        ("day(t), hour(t)", [PartitionTerm("t", "day"), PartitionTerm("t", "hour")]),
        ("bucket(a,8), bucket(a,16)", [PartitionTerm("a", "bucket", 8), PartitionTerm("a", "bucket", 16)]),
        ("year", [PartitionTerm("year")]),
    ],
)
def test_what_the_grammar_takes(text: str, expected: list[PartitionTerm]) -> None:
    assert tuple(expected) == parse_partition_by(text)


@pytest.mark.parametrize(
    "text",
    [
        *("", " , ,", "day(t", "day t)", "day(hour(t))", "truncate(a, 4)", "void(a)", "day()", "day(a, 2)"),
        *("bucket(a)", "bucket(16, a)", "a b", "day(t) x", "(a)", "a-b", "day(a-b)", "1a", "ü", "a;drop"),
    ],
)
def test_what_the_grammar_refuses_lists_the_vocabulary_or_the_rule(text: str) -> None:
    with pytest.raises(ValueError, match=r"bucket\(column, N\)|is not a column name"):
        parse_partition_by(text)


@pytest.mark.parametrize("count", ["0", "-1", "1.5", "x", "", "0x10", "٣"])
def test_a_bucket_count_is_a_whole_number_above_zero(count: str) -> None:
    with pytest.raises(ValueError, match="whole number above 0"):
        parse_partition_by(f"bucket(a, {count})")


@pytest.mark.parametrize("text", ["a, a", "identity(a), a", "DAY(t), day(t)", "bucket(a,8), bucket(a,08)"])
def test_the_same_term_twice_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="listed twice"):
        parse_partition_by(text)


@given(st.text(alphabet="ab(),1 _bucketday-", max_size=40))
def test_any_text_is_either_read_or_refused_with_a_sentence(text: str) -> None:
    try:
        terms = parse_partition_by(text)
    except ValueError as refusal:
        assert len(str(refusal)) > 10  # noqa: PT017 - either outcome is right, silence is not
    else:
        assert terms == parse_partition_by(", ".join(map(str, terms)))
