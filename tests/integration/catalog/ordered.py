"""A catalog that takes orders: rules, switches and the log under `/_control`."""

from collections.abc import Mapping
from typing import Any

from tests.integration.catalog.lake import Lake

COMMITS = {"method": "POST", "path_glob": "*/commit/prepared"}
FIRST_COMMIT = {**COMMITS, "nth": 1}


class OrderedLake(Lake):
    """A catalog of its own on a server with `--control`."""

    @property
    def orders(self) -> dict[str, str]:
        """The table `shop.orders` as an action names it."""
        return {"catalog": self.name, "namespace": "shop", "table": "orders"}

    def control(self, method: str, what: str, body: Any = None) -> Any:
        """One control request that must succeed; answers its JSON."""
        json = {} if body is None else {"json": body}
        answer = self.http.request(method, f"{self.server.url}/_control/{what}", **json)
        assert answer.is_success, answer.text
        return answer.json()

    def order(self, effect: Mapping[str, Any], match: Mapping[str, Any] = FIRST_COMMIT) -> None:
        """Put one rule in force, and no other."""
        self.control("PUT", "faults", [{"match": match, "do": effect}])

    def fired(self) -> list[int]:
        """How many requests each rule has touched."""
        return [rule["fired"] for rule in self.control("GET", "faults")]

    def logged(self) -> list[dict[str, Any]]:
        """The requests on this catalog in the log."""
        found: list[dict[str, Any]] = self.control("GET", "log")["requests"]
        return [request for request in found if self.name in request["path"]]
