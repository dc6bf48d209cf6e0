"""The variables of the filters: what belongs together, what is refused, what is never printed."""

from __future__ import annotations

import pytest

from tests.unit.test_config import loaded, problems

KEEP = {"MILLPOND_FILTER_KEEP_FIELD_NAME": "team"}
VALUES = {"MILLPOND_FILTER_VALUES": "1,2"}
DROP = {"MILLPOND_FILTER_DROP_FIELD_NAME": "team"}
URL = {"MILLPOND_INCLUDE_VALUES_URL": "http://allow.list/teams/"}
LIVE = {"MILLPOND_INCLUDE_VALUES_MODE": "authoritative"}
HEADER = {"MILLPOND_INCLUDE_VALUES_AUTH_HEADER_NAME": "Authorization"}
TOKEN = {"MILLPOND_INCLUDE_VALUES_AUTH_TOKEN": "Bearer hunter2"}


def test_without_any_of_them_nothing_is_filtered() -> None:
    filters = loaded().filters
    assert (None, None, "static") == (filters.keep_field, filters.drop_field, filters.mode)


def test_each_filter_has_a_list_of_its_own() -> None:
    filters = loaded(**KEEP, **VALUES, **DROP, MILLPOND_FILTER_DROP_VALUES=" x, 3 ,,x").filters
    assert ("team", (1, 2)) == (filters.keep_field, filters.keep_values)
    assert ("team", ("x", "3")) == (filters.drop_field, filters.drop_values)


@pytest.mark.parametrize(
    ("environ", "told"),
    [
        (KEEP, "MILLPOND_FILTER_KEEP_FIELD_NAME, MILLPOND_FILTER_VALUES: only one of them is set"),
        (VALUES, "MILLPOND_FILTER_KEEP_FIELD_NAME, MILLPOND_FILTER_VALUES: only one of them is set"),
        (DROP, "MILLPOND_FILTER_DROP_FIELD_NAME, MILLPOND_FILTER_DROP_VALUES: only one of them is set"),
        (
            {"MILLPOND_FILTER_DROP_VALUES": "1"},
            "MILLPOND_FILTER_DROP_FIELD_NAME, MILLPOND_FILTER_DROP_VALUES: only one of them is set",
        ),
        (KEEP | {"MILLPOND_FILTER_VALUES": " , "}, "MILLPOND_FILTER_VALUES=',': names no value"),
        (
            VALUES | {"MILLPOND_FILTER_KEEP_FIELD_NAME": "team-id"},
            "MILLPOND_FILTER_KEEP_FIELD_NAME='team-id': is no column",
        ),
        (
            VALUES | {"MILLPOND_FILTER_KEEP_FIELD_NAME": "_inserted_at"},
            "MILLPOND_FILTER_KEEP_FIELD_NAME='_inserted_at': is no column",
        ),
        (KEEP | {"MILLPOND_FILTER_VALUES": "a\udcff"}, "MILLPOND_FILTER_VALUES='a\\udcff': "),
        (URL, "MILLPOND_INCLUDE_VALUES_URL: needs MILLPOND_FILTER_KEEP_FIELD_NAME"),
        (KEEP | URL, "MILLPOND_INCLUDE_VALUES_MODE='shadow': needs MILLPOND_FILTER_VALUES"),
        (LIVE, "MILLPOND_INCLUDE_VALUES_MODE: needs MILLPOND_INCLUDE_VALUES_URL"),
        ({"MILLPOND_INCLUDE_VALUES_MODE": "shadow"}, "MILLPOND_INCLUDE_VALUES_MODE: needs"),
        (KEEP | URL | {"MILLPOND_INCLUDE_VALUES_MODE": "live"}, "MILLPOND_INCLUDE_VALUES_MODE='live': "),
        (
            KEEP | URL | LIVE | HEADER,
            "MILLPOND_INCLUDE_VALUES_AUTH_HEADER_NAME, MILLPOND_INCLUDE_VALUES_AUTH_TOKEN: only one",
        ),
        (
            KEEP | URL | LIVE | TOKEN,
            "MILLPOND_INCLUDE_VALUES_AUTH_HEADER_NAME, MILLPOND_INCLUDE_VALUES_AUTH_TOKEN: only one",
        ),
        (HEADER | TOKEN, "MILLPOND_INCLUDE_VALUES_AUTH_HEADER_NAME: needs MILLPOND_INCLUDE_VALUES_URL"),
        (
            KEEP | URL | LIVE | TOKEN | {"MILLPOND_INCLUDE_VALUES_AUTH_HEADER_NAME": "X Token"},
            "MILLPOND_INCLUDE_VALUES_AUTH_HEADER_NAME='X Token': ",
        ),
        (
            KEEP | LIVE | {"MILLPOND_INCLUDE_VALUES_URL": "ftp://ana:hunter2@allow.list"},
            "MILLPOND_INCLUDE_VALUES_URL='ftp://(secret)@allow.list': must be an http",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused(environ: dict[str, str], told: str) -> None:
    (problem,) = problems(**environ)
    assert problem.startswith(told)


@pytest.mark.parametrize("token", ["hunter2\nX-Evil: 1", "hunter2\xe9", "hunter2\x00"])
def test_a_token_that_can_be_no_header_is_refused_and_not_shown(token: str) -> None:
    (problem,) = problems(**KEEP, **URL, **LIVE, **HEADER, MILLPOND_INCLUDE_VALUES_AUTH_TOKEN=token)
    assert problem.startswith("MILLPOND_INCLUDE_VALUES_AUTH_TOKEN=(secret): must be printable ASCII")
    assert "hunter2" not in problem


def test_an_authoritative_url_needs_no_static_values() -> None:
    filters = loaded(**KEEP, **URL, **LIVE).filters
    assert ("authoritative", (), "http://allow.list/teams/") == (
        filters.mode,
        filters.keep_values,
        filters.url,
    )


def test_a_url_is_in_shadow_mode_unless_it_is_said_otherwise() -> None:
    assert "shadow" == loaded(**KEEP, **VALUES, **URL).filters.mode
    assert "authoritative" == loaded(**KEEP, **URL, MILLPOND_INCLUDE_VALUES_MODE="Authoritative").filters.mode


def test_the_url_is_printed_without_what_may_be_secret() -> None:
    url = "https://ana:hunter2@allow.list:8443/teams?key=hunter3"
    filters = loaded(**KEEP, **LIVE, MILLPOND_INCLUDE_VALUES_URL=url).filters
    assert "https://allow.list:8443/teams" == filters.shown_url


def test_the_token_is_in_no_text_of_the_configuration() -> None:
    config = loaded(**KEEP, **URL, **LIVE, **HEADER, **TOKEN)
    assert "hunter2" not in repr(config)
    token = config.filters.auth_token
    assert token is not None
    assert "Bearer hunter2" == token.get_secret_value()


def test_a_removal_by_a_single_answer_is_warned_of() -> None:
    (warning,) = loaded(**KEEP, **URL, **LIVE, MILLPOND_INCLUDE_VALUES_REMOVAL_POLLS="1").warnings
    assert warning.startswith("MILLPOND_INCLUDE_VALUES_REMOVAL_POLLS=1: ")
    assert () == loaded(**KEEP, **URL, **LIVE, MILLPOND_INCLUDE_VALUES_REMOVAL_POLLS="2").warnings


@pytest.mark.parametrize(
    ("pin", "values", "told"),
    [
        (
            "uuid",
            "0b5e5c2e-6c0f-4a52-9d4e-3a1f5f3c7b11,7",
            "7 can be no value of the column team, whose type is uuid",
        ),
        ("uuid", "7,8", "7, 8 can be no value"),
        ("bigint", "7,x", "x can be no value of the column team, whose type is bigint"),
        ("double", "9007199254740993", "9007199254740993 can be no value"),
        ("boolean", "1", "1 can be no value"),
        ("timestamptz", "soon", "soon can be no value"),
    ],
)
@pytest.mark.parametrize("filter_", ["MILLPOND_FILTER_VALUES", "MILLPOND_FILTER_DROP_VALUES"])
def test_a_value_that_its_pinned_column_cannot_hold_is_refused(
    filter_: str, pin: str, values: str, told: str
) -> None:
    field = KEEP if filter_ == "MILLPOND_FILTER_VALUES" else DROP
    (problem,) = problems(**field, **{filter_: values}, MILLPOND_TYPED_COLUMNS=f"team:{pin}")
    assert problem.startswith(f"{filter_}: {told}")


def test_values_that_their_pinned_column_can_hold_are_accepted() -> None:
    digits = "12345678901234567890123456789012"
    assert loaded(**KEEP, MILLPOND_FILTER_VALUES=digits, MILLPOND_TYPED_COLUMNS="team:uuid")
    assert loaded(**KEEP, MILLPOND_FILTER_VALUES="1,x", MILLPOND_TYPED_COLUMNS="team:varchar,other:uuid")


def test_a_column_of_ours_can_be_filtered_by_what_it_holds() -> None:
    ours = {"MILLPOND_KAFKA_COLUMNS": "true", "MILLPOND_FILTER_KEEP_FIELD_NAME": "_kafka_partition"}
    assert loaded(**ours, **VALUES)
    (problem,) = problems(**ours, MILLPOND_FILTER_VALUES="x")
    assert problem.startswith("MILLPOND_FILTER_VALUES: x can be no value of the column _kafka_partition")
