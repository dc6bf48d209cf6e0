"""`docs/configuration.md`, made from the declarations: `python -m millpond.config_reference > FILE`."""

from __future__ import annotations

import inspect
import sys
from typing import Any, get_args

from annotated_types import Ge, Gt, Le
from pydantic.fields import FieldInfo

from millpond.config import SECTIONS
from millpond.environment import CONSUMER_PREFIX, OWNED_PROPERTIES
from millpond.settings import Section

_HEAD = """\
# Configuration

Everything is set by environment variables, read once at the start. A blank value counts as unset. A bad
value ends the process with exit code 2 and one line for each problem, naming variable, value and rule;
a variable with one of our prefixes that nothing reads is warned about, with the nearest name that is.

This page is generated from the declarations in `millpond/settings.py` and `filter_settings.py` (`make docs`).
"""

_TITLES = {
    "kafka": "Kafka",
    "flush": "Flush",
    "service": "Service",
    "records": "Records",
    "filters": "Filters",
    "hoglake": "hoglake and the object store",
}


def reference() -> str:
    """The page, as Markdown."""
    parts = [_HEAD]
    for name, section in SECTIONS.items():
        parts.append(f"\n## {_TITLES[name]}\n\n{inspect.cleandoc(section.__doc__ or '')}\n")
        parts.append(_table(section))
    parts.append(_overrides())
    return "".join(parts)


def _table(section: type[Section]) -> str:
    lines = ["| Variable | Default | Values | Meaning |", "|---|---|---|---|"]
    for entry in section.model_fields.values():
        cells = (f"`{entry.alias}`", _default(entry), _values(entry), entry.description or "")
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n" + "\n".join(lines) + "\n"


def _default(entry: FieldInfo) -> str:
    if entry.is_required():
        return "**required**"
    value = entry.get_default(call_default_factory=True, validated_data={})
    if value is None or value == "" or value in ((), {}):
        return "unset"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`"


def _values(entry: FieldInfo) -> str:
    choices = [choice for choice in get_args(entry.annotation) if isinstance(choice, str)]
    if choices:
        return ", ".join(f"`{choice}`" for choice in choices)
    low = high = pattern = ""
    for rule in entry.metadata:
        if isinstance(rule, Ge):
            low = f"{rule.ge}"
        elif isinstance(rule, Gt):
            low = f"above {rule.gt}"
        elif isinstance(rule, Le):
            high = f"{rule.le}"
        else:
            pattern = getattr(rule, "pattern", None) or pattern
    if low or high:
        return f"{low} to {high}"
    return f"`{pattern}`" if pattern else _kind(entry.annotation)


def _kind(annotation: Any) -> str:
    text = str(annotation)
    if annotation is bool:
        return "`true`, `false`"
    if "SecretStr" in text:
        return "secret"
    if "tuple" in text or "dict" in text:
        return "list, separated by commas"
    return "text"


def _overrides() -> str:
    owned = "\n".join(f"| `{key}` | {reason} |" for key, reason in sorted(OWNED_PROPERTIES.items()))
    prefix = CONSUMER_PREFIX
    return f"""
## Any other property of the Kafka client

`{prefix}<PROPERTY>` sets a property of librdkafka: lower case, `_` for `.`. TLS and SASL are set this
way: `{prefix}SECURITY_PROTOCOL`, `{prefix}SASL_MECHANISMS`, `{prefix}SASL_USERNAME`,
`{prefix}SSL_CA_LOCATION`. `OAUTHBEARER` signs in to Amazon MSK with the pod's role (extra `msk-iam`).
These properties are ours and refused:

| Property | Why |
|---|---|
{owned}
"""


if __name__ == "__main__":
    sys.stdout.write(reference())
