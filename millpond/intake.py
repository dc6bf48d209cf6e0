"""Messages to rows: decoding for the columns the table has, the filters, and what goes to quarantine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa
from confluent_kafka import Message

from millpond.config import Config
from millpond.logs import logger
from millpond.metrics import Metrics
from millpond.record_settings import RecordSettings
from millpond.records import (
    KAFKA_COLUMNS,
    Chunk,
    Columns,
    Decoded,
    Decoder,
    Limits,
    Misfit,
    Reread,
    decode_messages,
    quarantined,
)
from millpond.records.names import INSERTED_AT
from millpond.selection import Selection

_NAMED_KEYS = 20
_NOT_JSON = frozenset({"json_parse", "not_an_object", "too_deep"})
"""These count as `json_parse` where records are counted that made no row (behaviour 2)."""

MESSAGE_BYTES = 256
"""What a message takes beside its value and its key: 177 measured, and a topic name of its own."""

HEADER_BYTES = 160
"""What a header takes beside its characters and bytes: a tuple of two objects."""

_ROW = "row number"  # no column of a table can be called so


@dataclass(frozen=True, slots=True)
class _Open:
    """The records behind the rows of a batch, which has these `columns`.

    `told` are the indices of those in quarantine already, `failed` the values told to have become null.
    """

    messages: Sequence[Message]
    columns: frozenset[str]
    told: frozenset[int]
    failed: Mapping[str, int]


class Intake:
    """Takes in what is consumed. What did not go in as it came is told once for each flush."""

    def __init__(self, config: Config, metrics: Metrics, selection: Selection) -> None:
        self._settings = config.records
        self._metrics = metrics
        self._selection = selection
        self._decoder = decoder_for(config.records, self._note_fault)
        logger().info("decoder ready", way=self._decoder.way)
        self._live = Columns()
        self._known: frozenset[str] = frozenset()
        self._unusable: set[str] = set()
        self._failed: Counter[str] = Counter()
        self._misfits: dict[str, _Misfits] = {}

    def expect(self, live: Columns) -> None:
        """From now on records are read for a table with these columns.

        Columns that a flush on its way is about to make are none yet: their types are guesses until the
        table has them, and another replica may give them others.
        """
        self._live = live
        self._known = frozenset(live.types).union(KAFKA_COLUMNS.names, [INSERTED_AT])
        self._decoder.expect(live.types, live.required, live.refused)

    def take(self, messages: Sequence[Message]) -> Chunk:
        """The rows of messages that have a value, and what becomes of the others. Never raises."""
        decoded = decode_messages(self._decoder, messages, kafka_columns=self._settings.kafka_columns)
        is_open = not self._known.issuperset(decoded.batch.schema.names)
        if is_open or decoded.misfits:
            batch, indices = self._selected(decoded, len(messages))
        else:
            batch, indices = self._selection.apply(decoded.batch), []
        there = decoded.skipped.union(indices)
        misfits = [misfit for misfit in decoded.misfits if misfit.index in there]  # what filters take is gone
        self._count(decoded, misfits, messages)
        chunk = Chunk(
            batch,
            self._quarantine(messages, misfits),
            records=len(messages),
            lost=len(decoded.skipped),
            read_for=self._live,
        )
        if not is_open:
            return chunk
        told = {misfit.index for misfit in misfits}
        return self._kept_open(
            chunk,
            _Open(
                [messages[index] for index in indices],
                frozenset(batch.schema.names),
                frozenset(number for number, index in enumerate(indices) if index in told),
                decoded.failed,
            ),
        )

    def tell(self) -> None:
        """What did not go in as it came since the last call: once each, however many records had it."""
        self._selection.tell()
        for column, count in self._failed.items():
            logger().warning("values do not fit the column and became null", column=column, values=count)
        for reason, misfits in self._misfits.items():
            logger().warning("records did not go in as they came", reason=reason, **misfits.as_fields())
        self._metrics.records_skipped.inc(len(self._unusable), reason="unsafe_field_name")
        if self._unusable:
            names = sorted(self._unusable)
            logger().warning(
                "keys that can be no column are left out",
                keys=names[:_NAMED_KEYS],
                more=len(names[_NAMED_KEYS:]),
            )
        self._unusable.clear()
        self._failed.clear()
        self._misfits.clear()

    def _selected(self, decoded: Decoded, count: int) -> tuple[pa.RecordBatch, list[int]]:
        """The rows the filters leave, and the index of the record behind each; there were `count` records."""
        numbers = pa.array(range(decoded.batch.num_rows), pa.int32())
        selected = self._selection.apply(decoded.batch.append_column(_ROW, numbers))
        of_rows = [index for index in range(count) if index not in decoded.skipped]
        indices = [of_rows[row] for row in selected.column(_ROW).to_pylist()]
        return selected.drop_columns([_ROW]), indices

    def _kept_open(self, chunk: Chunk, kept: _Open) -> Chunk:
        """A chunk that can be read again: types of new columns are guesses until the table has them."""
        return replace(
            chunk,
            again=partial(_read_again, self._settings, self._note_fault, kept),
            kept_bytes=sum(_bytes_of(message) for message in kept.messages),
        )

    def _note_fault(self, fault: str) -> None:
        self._metrics.errors.inc(type="compiled_decoder")
        # Not for those either who read records again.
        self._settings = self._settings.model_copy(update={"decoder": "python"})
        logger().error(
            "the compiled decoder failed; the one in Python takes over, please report this", fault=fault
        )

    def _quarantine(self, messages: Sequence[Message], misfits: Sequence[Misfit]) -> pa.RecordBatch | None:
        if not misfits or self._settings.quarantine == "skip":
            return None
        return quarantined(messages, misfits)

    def _count(self, decoded: Decoded, misfits: Sequence[Misfit], messages: Sequence[Message]) -> None:
        for label, count in _lost(misfits, decoded.skipped).items():
            self._metrics.records_skipped.inc(count, reason=label)
        for misfit in misfits:
            self._misfits.setdefault(misfit.reason, _Misfits(misfit, messages[misfit.index])).count += 1
        self._unusable |= decoded.unusable
        self._failed.update(decoded.failed)
        for target_type, count in decoded.coerced.items():
            self._metrics.columns_coerced.inc(count, target_type=target_type)
        self._metrics.errors.inc(len(decoded.failed), type="column_coercion")


@dataclass
class _Misfits:
    """How many records had one fault, and the first of them."""

    first: Misfit
    record: Message
    count: int = 0

    def as_fields(self) -> dict[str, object]:
        """For a line of the log."""
        return {
            "records": self.count,
            "first_partition": self.record.partition(),
            "first_offset": self.record.offset(),
            "first_detail": self.first.detail,
        }


def decoder_for(settings: RecordSettings, on_fault: Callable[[str], None] | None = None) -> Decoder:
    """A decoder by the operator's rules, which expects no column but the pinned ones.

    `on_fault` as in `Decoder`.
    """
    return Decoder(
        settings.typed_columns,
        KAFKA_COLUMNS.names if settings.kafka_columns else (),
        limits=Limits(settings.max_record_bytes, settings.max_columns),
        rejects_misfits=settings.on_mismatch == "reject",
        way=None if settings.decoder == "auto" else settings.decoder,
        on_fault=on_fault,
    )


def _read_again(
    settings: RecordSettings, on_fault: Callable[[str], None], kept: _Open, columns: Columns
) -> Reread:
    decoder = decoder_for(settings, on_fault)
    decoder.expect(columns.types, columns.required, columns.refused)
    decoded = decode_messages(decoder, kept.messages, kafka_columns=settings.kafka_columns)
    news = [misfit for misfit in decoded.misfits if misfit.index not in kept.told]
    rows = quarantined(kept.messages, [] if settings.quarantine == "skip" else news)
    names = kept.columns.union(columns.types, [INSERTED_AT])
    return Reread(
        _without_more_columns(decoded.batch, names),
        rows,
        _lost(decoded.misfits, decoded.skipped),
        Counter(decoded.failed) - Counter(kept.failed),
    )


def _lost(misfits: Sequence[Misfit], skipped: AbstractSet[int]) -> Counter[str]:
    """How many records made no row, by the reason they are counted under."""
    return Counter(
        "json_parse" if misfit.reason in _NOT_JSON else misfit.reason
        for misfit in misfits
        if misfit.index in skipped
    )


def _without_more_columns(batch: pa.RecordBatch, names: AbstractSet[str]) -> pa.RecordBatch:
    """`batch` without columns for which there was no room when its records came: those are told already."""
    more = [name for name in batch.schema.names if name not in names]
    if len(more) == batch.num_columns:  # rows are counted by a column
        batch = batch.append_column(INSERTED_AT, pa.nulls(batch.num_rows))
    return batch.drop_columns(more)


def _bytes_of(message: Message) -> int:
    return (
        MESSAGE_BYTES + len(message.value() or b"") + len(message.key() or b"") + _bytes_of_headers(message)
    )


def _bytes_of_headers(message: Message) -> int:
    try:
        headers: Any = message.headers() or ()
    except UnicodeDecodeError:  # the client makes text of their names, which may be any bytes
        return HEADER_BYTES
    return sum(HEADER_BYTES + len(name) + len(value or b"") for name, value in headers)
