"""The values to keep as an HTTP endpoint lists them (MILLPOND_INCLUDE_VALUES_URL)."""

from millpond.include_values.allow_list import AllowList
from millpond.include_values.poller import Poller

__all__ = ["AllowList", "Poller"]
