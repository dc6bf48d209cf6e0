"""Variables that are refused, passed through, or read by nobody."""

import pytest

from millpond.environment import OWNED_PROPERTIES, shown, uses_oauth
from tests.unit.test_config import loaded, problems


def variable_of(key: str) -> str:
    """How a librdkafka property is spelled in the environment."""
    return "KAFKA_CONSUMER_" + key.upper().replace(".", "_")


@pytest.mark.parametrize("key", OWNED_PROPERTIES)
def test_a_property_of_ours_is_refused_with_the_reason(key: str) -> None:
    """C22, J11: nothing we set is taken from outside."""
    variable = variable_of(key)
    (told,) = problems(**{variable: "x"})
    assert f"{variable}='x': {key} cannot be set; {OWNED_PROPERTIES[key]}" == told


@pytest.mark.parametrize(
    "key",
    [
        "group.id",
        "group.instance.id",
        "enable.auto.commit",
        "auto.offset.reset",
        "partition.assignment.strategy",
    ],
)
def test_the_properties_that_would_break_the_protocol_are_ours(key: str) -> None:
    assert key in OWNED_PROPERTIES


def test_other_properties_are_passed_through_in_librdkafkas_spelling() -> None:
    config = loaded(
        KAFKA_CONSUMER_SECURITY_PROTOCOL="SASL_SSL",
        KAFKA_CONSUMER_SASL_USERNAME="Robin",
        KAFKA_CONSUMER_SSL_CA_LOCATION="/etc/ca.pem",
        KAFKA_CONSUMER_QUEUED_MAX_MESSAGES_KBYTES="",
    )
    expected = {"security.protocol": "SASL_SSL", "sasl.username": "Robin", "ssl.ca.location": "/etc/ca.pem"}
    assert expected == config.consumer_overrides
    assert () == config.warnings


def test_oauth_needs_a_region() -> None:
    (told,) = problems(KAFKA_CONSUMER_SASL_MECHANISMS="OAUTHBEARER")
    assert told.startswith("AWS_REGION: required with SASL OAUTHBEARER")


@pytest.mark.parametrize("variable", ["AWS_REGION", "AWS_DEFAULT_REGION"])
def test_either_aws_variable_gives_the_region(variable: str) -> None:
    config = loaded(**{"KAFKA_CONSUMER_SASL_MECHANISMS": "OAUTHBEARER", variable: "eu-west-1"})
    assert "eu-west-1" == config.kafka.token_region


def test_aws_region_wins_over_the_default_region() -> None:
    assert "a" == loaded(AWS_REGION="a", AWS_DEFAULT_REGION="b").kafka.token_region


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        ({"sasl.mechanisms": "OAUTHBEARER"}, True),
        ({"sasl.mechanism": "oauthbearer"}, True),
        ({"sasl.mechanisms": "PLAIN"}, False),
        ({}, False),
    ],
)
def test_oauth_is_recognised_under_both_names_of_the_property(
    overrides: dict[str, str],
    expected: bool,  # noqa: FBT001 - a table of outcomes
) -> None:
    assert expected == uses_oauth(overrides)


def test_a_variable_whose_meaning_cannot_be_honoured_is_refused() -> None:
    (told,) = problems(MILLPOND_VARIANT_COLUMNS="x")
    assert told.startswith("MILLPOND_VARIANT_COLUMNS='x': ")


def test_a_ducklake_partition_spec_left_behind_is_refused() -> None:
    (told,) = problems(DUCKLAKE_PARTITION_BY="day(t)")
    assert "HOGLAKE_PARTITION_BY" in told
    assert () == loaded(DUCKLAKE_PARTITION_BY="day(t)", HOGLAKE_PARTITION_BY="day(t)").warnings


def test_the_ducklake_destination_is_refused_with_the_remedy() -> None:
    (told,) = problems(MILLPOND_DESTINATION="ducklake")
    assert "hoglake only" in told


@pytest.mark.parametrize(
    ("variable", "nearest"),
    [
        ("FLUSH_INTERVAL", "FLUSH_INTERVAL_MS"),
        ("MILLPOND_FLUSH_SIZE", "FLUSH_SIZE"),
        ("HOGLAKE_CATALOGUE", "HOGLAKE_CATALOG"),
        ("KAFKA_TOPICS", "KAFKA_TOPIC"),
        ("FETCH_MIN_BYTE", "FETCH_MIN_BYTES"),
    ],
)
def test_a_misspelled_variable_is_warned_of_with_the_nearest_name(variable: str, nearest: str) -> None:
    (warning,) = loaded(**{variable: "1"}).warnings
    assert f"{variable} is not a variable of millpond and has no effect; did you mean {nearest}?" == warning


def test_a_variable_unlike_any_of_ours_is_warned_of_without_a_guess() -> None:
    (warning,) = loaded(MILLPOND_ZZZZZZZZZZZZZZZZZZZZZZZZ="1").warnings
    assert "did you mean" not in warning


@pytest.mark.parametrize("variable", ["POSTHOG_PROJECT_TOKEN", "MILLPOND_SERVICE_NAMESPACE"])
def test_a_variable_without_effect_is_told_and_its_value_is_not(variable: str) -> None:
    (warning,) = loaded(**{variable: "phc_s3cret"}).warnings
    assert warning.startswith(f"{variable} has no effect")
    assert "s3cret" not in warning


@pytest.mark.parametrize(
    "variable",
    [
        "KAFKA_SERVICE_HOST",
        "KAFKA_SERVICE_PORT",
        "KAFKA_SERVICE_PORT_CLIENT",
        "KAFKA_PORT",
        "KAFKA_PORT_9092_TCP",
        "KAFKA_PORT_9092_TCP_ADDR",
        "HOGLAKE_SERVICE_HOST",
        "HOGLAKE_PORT_8080_TCP_PROTO",
        "MILLPOND_PORT_8000_UDP",
    ],
)
def test_the_variables_kubernetes_adds_for_services_are_nobodys_misspelling(variable: str) -> None:
    assert () == loaded(**{variable: "10.0.0.7"}).warnings


def test_variables_of_other_programs_are_left_alone() -> None:
    assert () == loaded(PATH="/bin", HOGWARTS="x", FLUSHED="1").warnings


@pytest.mark.parametrize(
    "variable",
    [
        "HOGLAKE_S3_SECRET_KEY",
        "HOGLAKE_S3_ACCESS_KEY",
        "KAFKA_CONSUMER_SASL_PASSWORD",
        "POSTHOG_PROJECT_TOKEN",
        "MILLPOND_INCLUDE_VALUES_AUTH_TOKEN",
    ],
)
def test_the_value_of_a_secret_is_not_shown(variable: str) -> None:
    assert "(secret)" == shown(variable, "hunter2")


def test_who_signs_in_by_a_url_is_not_shown() -> None:
    assert "'ftp://(secret)@host/x'" == shown("MILLPOND_INCLUDE_VALUES_URL", "ftp://ana:hunter2@host/x")


def test_any_other_value_is_shown() -> None:
    assert "'x'" == shown("FLUSH_SIZE", "x")


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("CONSUME_BATCHSIZE", "CONSUME_BATCH_SIZE"),
        ("PYHOGLAKE_UPLOAD_CONCURENCY", "PYHOGLAKE_UPLOAD_CONCURRENCY"),
        ("STATS_INTERVALL_MS", "STATS_INTERVAL_MS"),
        ("REPLICA_COUNTS", "REPLICA_COUNT"),
    ],
)
def test_a_misspelt_name_without_a_prefix_of_ours_is_told_too(name: str, meant: str) -> None:
    assert any(meant in warning and name in warning for warning in loaded(**{name: "1"}).warnings)


@pytest.mark.parametrize("name", ["PATH", "HOME", "AWS_REGIONS_ALL", "PYTHONPATH", "LOGNAME"])
def test_names_of_others_are_left_alone(name: str) -> None:
    assert () == loaded(**{name: "x"}).warnings
