"""Which names and paths the catalog accepts (contract 4.2, 5.4, 8.1)."""

import re
from typing import Final

from millpond.devstack.catalog.errors import InvalidError

_CATALOG_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,127}")
# Whitespace and control characters, Unicode's included: legal in S3 keys, and fatal in whatever prints or
# splits a path.
_UNPRINTABLE: Final = re.compile(r"[\s\x00-\x1f\x7f-\x9f]")
_DATA_PATH_MAX_CHARACTERS: Final = 512
_RESERVED_COLUMN_PREFIX: Final = "_hog"


def check_catalog_name(name: str) -> None:
    """Refuse a catalog name outside `[a-z0-9][a-z0-9_-]{0,62}`."""
    if not _CATALOG_NAME.fullmatch(name):
        raise InvalidError(
            f"catalog name {name!r} must be 1 to 63 of a-z, 0-9, '_' and '-', starting with a letter or digit"
        )


def check_identifier(kind: str, name: str) -> None:
    """Refuse a namespace, table, view or column name that is no identifier; `kind` says which it is."""
    if not _IDENTIFIER.fullmatch(name):
        raise InvalidError(
            f"{kind} name {name!r} must be 1 to 128 of A-Z, a-z, 0-9, '_' and '-',"
            " starting with a letter or '_'"
        )


def check_column_name(name: str) -> None:
    """Refuse a column name that is no identifier or is kept for the catalog's own columns."""
    check_identifier("column", name)
    if name.startswith(_RESERVED_COLUMN_PREFIX):
        raise InvalidError(f"column name {name!r} uses the reserved prefix '{_RESERVED_COLUMN_PREFIX}'")


def check_data_path(path: str) -> None:
    """Refuse anything but `s3://bucket[/prefix]` without dot segments, spaces or control characters."""
    if len(path) > _DATA_PATH_MAX_CHARACTERS:
        raise InvalidError(
            f"data_path has {len(path)} characters, at most {_DATA_PATH_MAX_CHARACTERS} allowed"
        )
    if not path.startswith("s3://") or _UNPRINTABLE.search(path):
        raise InvalidError(
            f"data_path {path!r} must be s3://bucket[/prefix] without spaces or control characters"
        )
    bucket, *segments = path.removeprefix("s3://").split("/")
    if not bucket:
        raise InvalidError(f"data_path {path!r} names no bucket")
    if any(segment in {".", ".."} for segment in (bucket, *segments)):
        raise InvalidError(f"data_path {path!r} has a '.' or '..' segment")


def prefix_of(data_path: str) -> str:
    """The data path with exactly one trailing slash: what object paths start with."""
    return data_path if data_path.endswith("/") else data_path + "/"


def check_object_path(path: str, data_path: str) -> None:
    """Refuse an object outside the data path, or spelled so that another spelling could name it."""
    prefix = prefix_of(data_path)
    if not path.startswith(prefix):
        raise InvalidError(f"path {path!r} is not under the catalog's data_path {prefix!r}")
    if _UNPRINTABLE.search(path):
        raise InvalidError(f"path {path!r} has whitespace or control characters")
    if any(segment in {"", ".", ".."} for segment in path.removeprefix(prefix).split("/")):
        raise InvalidError(f"path {path!r} has an empty, '.' or '..' segment")
