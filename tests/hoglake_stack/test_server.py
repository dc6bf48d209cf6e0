"""What the published server says of itself, before the integration tests are believed."""

from __future__ import annotations

import httpx
import pytest

from tests.hoglake_stack.attached import AttachedStack


@pytest.fixture
def server(external_stack: AttachedStack | None) -> AttachedStack:
    """The published server; the image was checked when it was booted or attached to."""
    assert external_stack is not None
    return external_stack


def test_it_lists_catalogs(server: AttachedStack) -> None:
    """Contract 4.1: where pyhoglake's own live suites knock first."""
    assert 200 == httpx.get(f"{server.catalog.url}/v1/catalogs", trust_env=False).status_code


def test_an_unknown_receipt_is_not_found_and_says_so_by_its_code(server: AttachedStack) -> None:
    """Contract 5.2: recovery rests on this answer, and the client has no call for it."""
    url = f"{server.catalog.url}/v1/catalogs"
    catalog = {"name": server.catalog_name, "data_path": f"s3://{server.store.bucket}/{server.catalog_name}"}
    assert httpx.post(url, json=catalog, trust_env=False).status_code in {201, 409}
    key = "9a0cb2ad-6a42-4e2f-8b2c-0f6f1c3a5e77"
    receipt = httpx.get(f"{url}/{server.catalog_name}/commit/receipts/{key}", trust_env=False)
    assert (404, "not_found") == (receipt.status_code, receipt.json()["error"])
