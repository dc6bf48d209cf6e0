"""The configuration of one process: ranges, defaults, and errors that name variable, value and rule."""

from collections.abc import Iterator

import pytest

from millpond.config import SECTIONS, Config, load
from millpond.errors import ConfigError
from millpond.partition_by import PartitionTerm

REQUIRED = {
    "KAFKA_BOOTSTRAP_SERVERS": "broker:9092",
    "KAFKA_TOPIC": "flights",
    "REPLICA_COUNT": "4",
    "HOGLAKE_URL": "http://catalog:8080",
    "HOGLAKE_CATALOG": "lake",
    "HOGLAKE_NAMESPACE": "main",
    "HOGLAKE_TABLE": "events",
}

DEFAULTS: dict[str, object] = {
    "GROUP_ID": None,
    "KAFKA_AUTO_OFFSET_RESET": "earliest",
    "KAFKA_ON_DATA_LOSS": "continue",
    "KAFKA_START_AT": None,
    "BROKER_SOURCE": "",
    "FETCH_MIN_BYTES": 1_048_576,
    "FETCH_MAX_WAIT_MS": 500,
    "CONSUME_BATCH_SIZE": 1000,
    "STATS_INTERVAL_MS": 5000,
    "AWS_REGION": None,
    "AWS_DEFAULT_REGION": None,
    "FLUSH_SIZE": 104_857_600,
    "FLUSH_INTERVAL_MS": 60_000,
    "FLUSH_DEADLINE_S": 480,
    "MILLPOND_GRACE_PERIOD_S": 110,
    "MILLPOND_REPLAY_EPOCH": "",
    "MILLPOND_STOP_AT_END": False,
    "MILLPOND_DESTINATION": "hoglake",
    "POD_NAME": None,
    "HOSTNAME": None,
    "MILLPOND_HTTP_PORT": 8000,
    "LOG_LEVEL": "INFO",
    "MILLPOND_LOG_FORMAT": "json",
    "MILLPOND_SERVICE_VERSION": None,
    "MILLPOND_SORT_BY": (),
    "MILLPOND_TYPED_COLUMNS": {},
    "MILLPOND_KAFKA_COLUMNS": False,
    "MILLPOND_QUARANTINE": "table",
    "MILLPOND_QUARANTINE_MAX_FRACTION": 0.5,
    "MILLPOND_ON_MISMATCH": "null",
    "MILLPOND_MAX_RECORD_BYTES": 16_777_216,
    "MILLPOND_MAX_COLUMNS": 1000,
    "MILLPOND_DECODER": "auto",
    "MILLPOND_FILTER_KEEP_FIELD_NAME": None,
    "MILLPOND_FILTER_VALUES": (),
    "MILLPOND_FILTER_DROP_FIELD_NAME": None,
    "MILLPOND_FILTER_DROP_VALUES": (),
    "MILLPOND_INCLUDE_VALUES_URL": None,
    "MILLPOND_INCLUDE_VALUES_MODE": "shadow",
    "MILLPOND_INCLUDE_VALUES_POLL_INTERVAL_S": 60,
    "MILLPOND_INCLUDE_VALUES_REMOVAL_POLLS": 5,
    "MILLPOND_INCLUDE_VALUES_REQUEST_TIMEOUT_S": 10,
    "MILLPOND_INCLUDE_VALUES_STARTUP_TIMEOUT_S": 60,
    "MILLPOND_INCLUDE_VALUES_AUTH_HEADER_NAME": None,
    "MILLPOND_INCLUDE_VALUES_AUTH_TOKEN": None,
    "HOGLAKE_DATA_PATH": None,
    "HOGLAKE_S3_ENDPOINT": None,
    "HOGLAKE_S3_REGION": None,
    "HOGLAKE_S3_ACCESS_KEY": None,
    "HOGLAKE_S3_SECRET_KEY": None,
    "HOGLAKE_PARTITION_BY": (),
    "HOGLAKE_MAX_RETRY_COUNT": 6,
    "HOGLAKE_REQUEST_TIMEOUT_S": 45.0,
    "PYHOGLAKE_UPLOAD_CONCURRENCY": 64,
}


def loaded(**environ: str) -> Config:
    """The configuration of a valid environment with some variables added."""
    return load(REQUIRED | environ)


def problems(**environ: str) -> list[str]:
    """What is wrong with a valid environment after some variables are added."""
    with pytest.raises(ConfigError) as refusal:
        loaded(**environ)
    assert 2 == refusal.value.exit_code
    return refusal.value.problems


def values(config: Config) -> Iterator[tuple[str, object]]:
    """Every variable and the value it got."""
    for name, section in SECTIONS.items():
        for attribute, field in section.model_fields.items():
            yield str(field.alias), getattr(getattr(config, name), attribute)


@pytest.mark.parametrize(("variable", "expected"), DEFAULTS.items())
def test_an_unset_variable_has_the_documented_default(variable: str, expected: object) -> None:
    assert expected == dict(values(loaded()))[variable]


def test_every_variable_is_either_required_or_has_a_tested_default() -> None:
    variables = {str(f.alias) for section in SECTIONS.values() for f in section.model_fields.values()}
    assert variables == DEFAULTS.keys() | REQUIRED.keys()


@pytest.mark.parametrize("variable", DEFAULTS)
@pytest.mark.parametrize("blank", ["", "  ", "\n"])
def test_a_blank_variable_counts_as_unset(variable: str, blank: str) -> None:
    assert dict(values(loaded())) == dict(values(loaded(**{variable: blank})))


@pytest.mark.parametrize("variable", REQUIRED)
@pytest.mark.parametrize("blank", [None, " "])
def test_a_missing_or_blank_required_variable_is_named(variable: str, blank: str | None) -> None:
    environ = {name: text for name, text in REQUIRED.items() if name != variable}
    if blank is not None:
        environ[variable] = blank
    with pytest.raises(ConfigError) as refusal:
        load(environ)
    assert [f"{variable}: required, but not set"] == refusal.value.problems


def test_every_variable_has_one_sentence_and_one_name() -> None:
    fields = [field for section in SECTIONS.values() for field in section.model_fields.values()]
    assert all(field.alias and field.description and field.description.endswith(".") for field in fields)
    assert len(fields) == len({field.alias for field in fields})


def test_all_problems_are_told_at_once() -> None:
    told = problems(FLUSH_SIZE="x", FETCH_MIN_BYTES="0", HOGLAKE_CATALOG="Lake")
    assert {"FLUSH_SIZE", "FETCH_MIN_BYTES", "HOGLAKE_CATALOG"} == {line.split("=")[0] for line in told}


RANGES = {
    "FETCH_MIN_BYTES": ("1", "100000000", "0", "100000001"),
    "FETCH_MAX_WAIT_MS": ("0", "300000", "-1", "300001"),
    "CONSUME_BATCH_SIZE": ("10", "1000000", "9", "1000001"),
    "STATS_INTERVAL_MS": ("0", "86400000", "-1", "86400001"),
    "FLUSH_SIZE": ("1024", "2147483647", "1023", "2147483648"),
    "FLUSH_INTERVAL_MS": ("100", "86400000", "99", "86400001"),
    "FLUSH_DEADLINE_S": ("429", "480", "0.5", "480.5"),
    "MILLPOND_GRACE_PERIOD_S": ("1", "86400", "0.5", "86401"),
    "MILLPOND_HTTP_PORT": ("0", "65535", "-1", "65536"),
    "MILLPOND_INCLUDE_VALUES_POLL_INTERVAL_S": ("0.001", "86400", "0", "86401"),
    "MILLPOND_INCLUDE_VALUES_REMOVAL_POLLS": ("1", "10000", "0", "10001"),
    "MILLPOND_INCLUDE_VALUES_REQUEST_TIMEOUT_S": ("0.001", "600", "0", "601"),
    "MILLPOND_INCLUDE_VALUES_STARTUP_TIMEOUT_S": ("0.001", "3600", "0", "3601"),
    "REPLICA_COUNT": ("1", "10000", "0", "10001"),
    "HOGLAKE_MAX_RETRY_COUNT": ("1", "6", "0", "101"),
    "HOGLAKE_REQUEST_TIMEOUT_S": ("0.5", "45", "0", "480.5"),
    "PYHOGLAKE_UPLOAD_CONCURRENCY": ("1", "1024", "0", "1025"),
}


@pytest.mark.parametrize(("variable", "ends"), RANGES.items())
def test_a_number_may_be_either_end_of_its_range(variable: str, ends: tuple[str, str, str, str]) -> None:
    for text in ends[:2]:
        assert float(text) == dict(values(loaded(**{variable: text})))[variable]


@pytest.mark.parametrize(
    ("variable", "text"), [(v, t) for v, ends in RANGES.items() for t in (*ends[2:], "x", "nan", "1e999")]
)
def test_a_number_outside_its_range_is_refused_with_name_and_value(variable: str, text: str) -> None:
    (told,) = problems(**{variable: text})
    assert told.startswith(f"{variable}={text!r}: ")


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("KAFKA_TOPIC", "a b"),
        ("KAFKA_TOPIC", "x" * 250),
        ("KAFKA_AUTO_OFFSET_RESET", "error"),
        ("KAFKA_ON_DATA_LOSS", "ignore"),
        ("KAFKA_START_AT", "yesterday"),
        ("KAFKA_START_AT", "2026-01-02T03:00:00"),
        ("MILLPOND_STOP_AT_END", "perhaps"),
        ("MILLPOND_REPLAY_EPOCH", "a b"),
        ("MILLPOND_REPLAY_EPOCH", "x" * 65),
        ("MILLPOND_DESTINATION", "iceberg"),
        ("LOG_LEVEL", "verbose"),
        ("MILLPOND_LOG_FORMAT", "xml"),
        ("HOGLAKE_URL", "catalog:8080"),
        ("HOGLAKE_URL", "ftp://catalog"),
        ("HOGLAKE_CATALOG", "Lake"),
        ("HOGLAKE_CATALOG", "l" * 64),
        ("HOGLAKE_NAMESPACE", "1main"),
        ("HOGLAKE_TABLE", "a.b"),
        ("HOGLAKE_TABLE", "t" * 129),
        ("HOGLAKE_DATA_PATH", "s3://Bucket/x"),
        ("HOGLAKE_DATA_PATH", "s3a://bucket/x"),
        ("HOGLAKE_DATA_PATH", "/bucket/x"),
        ("HOGLAKE_S3_ENDPOINT", "store:9000"),
        ("HOGLAKE_PARTITION_BY", "truncate(a, 4)"),
        ("HOGLAKE_PARTITION_BY", ","),
        ("MILLPOND_SORT_BY", "a-b"),
        ("MILLPOND_SORT_BY", ","),
        ("MILLPOND_TYPED_COLUMNS", "a"),
        ("MILLPOND_TYPED_COLUMNS", "a:decimal"),
        ("MILLPOND_TYPED_COLUMNS", "a-b:uuid"),
        ("MILLPOND_TYPED_COLUMNS", "a:uuid,a:bigint"),
        ("MILLPOND_TYPED_COLUMNS", "_inserted_at:timestamptz"),
        ("MILLPOND_TYPED_COLUMNS", "_hog_x:uuid"),
    ],
)
def test_a_text_that_breaks_its_rule_is_refused_with_name_and_value(variable: str, text: str) -> None:
    """G09 for the data path, A18 for the reset policy."""
    (told,) = problems(**{variable: text})
    assert told.startswith(f"{variable}={text!r}: ")


@pytest.mark.parametrize(
    ("variable", "text", "expected"),
    [
        ("KAFKA_AUTO_OFFSET_RESET", " Latest ", "latest"),
        ("BROKER_SOURCE", "MSK", "msk"),
        ("LOG_LEVEL", "debug", "DEBUG"),
        ("MILLPOND_LOG_FORMAT", "Text", "text"),
        ("MILLPOND_DESTINATION", "HogLake", "hoglake"),
        ("HOGLAKE_URL", "https://catalog/", "https://catalog"),
        ("HOGLAKE_TABLE", "a-b", "a-b"),
        ("HOGLAKE_DATA_PATH", "s3://my.bucket-1", "s3://my.bucket-1"),
        ("MILLPOND_SORT_BY", "b, a,,b", ("b", "a")),
        (
            "MILLPOND_TYPED_COLUMNS",
            "t: TimestampTZ, id:uuid,t:timestamptz,sent:timestamptz[ms]",
            {"t": "timestamptz", "id": "uuid", "sent": "timestamptz[ms]"},
        ),
        ("HOGLAKE_PARTITION_BY", "a, day(t)", (PartitionTerm("a"), PartitionTerm("t", "day"))),
    ],
)
def test_a_text_is_read_in_any_spelling_its_rule_allows(variable: str, text: str, expected: object) -> None:
    assert expected == dict(values(loaded(**{variable: text})))[variable]


@pytest.mark.parametrize(
    ("attempts", "timeout", "expected"), [("8", "45", "633.75"), ("7", "45", "531.25"), ("6", "60", "518.75")]
)
def test_attempts_that_do_not_fit_the_deadline_are_refused_with_the_sum(
    attempts: str, timeout: str, expected: str
) -> None:
    """C02: the worst case is bounded before anything starts."""
    expected_problem = (
        f"HOGLAKE_MAX_RETRY_COUNT={attempts}, HOGLAKE_REQUEST_TIMEOUT_S={timeout}: a flush could take "
        f"{expected} s, more than FLUSH_DEADLINE_S=480; lower the attempts or the timeout"
    )
    assert [expected_problem] == problems(HOGLAKE_MAX_RETRY_COUNT=attempts, HOGLAKE_REQUEST_TIMEOUT_S=timeout)


def test_attempts_that_just_fit_the_deadline_are_taken() -> None:
    assert 428.75 == loaded(FLUSH_DEADLINE_S="428.75").flush.deadline_seconds


def test_a_shorter_deadline_is_what_the_attempts_must_fit() -> None:
    (told,) = problems(FLUSH_DEADLINE_S="428")
    assert "428.75 s, more than FLUSH_DEADLINE_S=428" in told
    assert 2 == loaded(FLUSH_DEADLINE_S="140", HOGLAKE_MAX_RETRY_COUNT="2").hoglake.attempts


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, 0),
        ({"HOSTNAME": "drain-2"}, 2),
        ({"POD_NAME": "drain-eu-3", "HOSTNAME": "drain-2"}, 3),
        ({"POD_NAME": " ", "HOSTNAME": "drain-2"}, 2),
    ],
)
def test_the_ordinal_is_the_number_at_the_end_of_the_pods_name(
    environ: dict[str, str], expected: int
) -> None:
    assert expected == loaded(**environ).service.ordinal


@pytest.mark.parametrize(
    ("environ", "parts"),
    [
        ({"POD_NAME": "drain"}, ("POD_NAME='drain'", "ordinal")),
        ({"HOSTNAME": "drain3"}, ("HOSTNAME='drain3'", "ordinal")),
        ({"POD_NAME": "drain-4"}, ("POD_NAME='drain-4'", "ordinal 4", "REPLICA_COUNT=4")),
    ],
)
def test_a_pod_name_that_gives_no_share_is_refused(environ: dict[str, str], parts: tuple[str, ...]) -> None:
    """J04: a pod beyond REPLICA_COUNT refuses to start."""
    (told,) = problems(**environ)
    for part in parts:
        assert part in told


def test_the_group_differs_between_destinations_and_tables_unless_it_is_given() -> None:
    """D08: a shadow deployment shares no offsets."""
    assert "millpond-hoglake-flights-events" == loaded().group_id
    assert "millpond-hoglake-flights-shadow" == loaded(HOGLAKE_TABLE="shadow").group_id
    assert "mine" == loaded(GROUP_ID="mine").group_id


def test_the_pipeline_label_is_topic_and_table() -> None:
    assert "flights-events" == loaded().pipeline


@pytest.mark.parametrize("one", ["HOGLAKE_S3_ACCESS_KEY", "HOGLAKE_S3_SECRET_KEY"])
def test_one_half_of_a_credential_is_refused_naming_both_halves(one: str) -> None:
    (told,) = problems(**{one: "hunter2"})
    assert "HOGLAKE_S3_ACCESS_KEY" in told
    assert "HOGLAKE_S3_SECRET_KEY" in told
    assert "hunter2" not in told


def test_a_blank_half_of_a_credential_counts_as_unset() -> None:
    assert loaded(HOGLAKE_S3_ACCESS_KEY=" ", HOGLAKE_S3_SECRET_KEY="").hoglake.s3_access_key is None


def test_secrets_are_never_printed_with_the_configuration() -> None:
    config = loaded(
        HOGLAKE_S3_ACCESS_KEY="s3cret-a",
        HOGLAKE_S3_SECRET_KEY="s3cret-b",
        KAFKA_CONSUMER_SASL_PASSWORD="s3cret-c",
    )
    assert "s3cret" not in f"{config!r} {config}"


@pytest.mark.parametrize("section", SECTIONS)
def test_a_section_cannot_be_changed(section: str) -> None:
    part = getattr(loaded(), section)
    with pytest.raises(Exception, match="frozen"):
        setattr(part, next(iter(type(part).model_fields)), "changed")


def test_only_the_environment_handed_in_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLUSH_SIZE", "2048")
    assert 104_857_600 == loaded().flush.size_bytes


@pytest.mark.parametrize(("short", "level"), [("warn", "WARNING"), ("FATAL", "CRITICAL")])
def test_the_short_names_of_levels_are_taken_as_logging_takes_them(short: str, level: str) -> None:
    assert level == loaded(LOG_LEVEL=short).service.log_level


def test_a_table_whose_quarantine_could_have_no_name_is_refused_at_the_start() -> None:
    """The first odd record would find out, and stop every start from then on."""
    (told,) = problems(HOGLAKE_TABLE="e" * 118)
    assert "shorten it to 117" in told
    assert "e" * 117 == loaded(HOGLAKE_TABLE="e" * 117).hoglake.table
    assert "e" * 128 == loaded(HOGLAKE_TABLE="e" * 128, MILLPOND_QUARANTINE="skip").hoglake.table
