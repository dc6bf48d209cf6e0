"""The table flushes go to, however it comes to be known: found, made, laid out, given new columns."""

from __future__ import annotations

import pyarrow as pa
from pyhoglake import Catalog, NotFoundError, Table, TableInfo

from millpond.deadline import Clock
from millpond.errors import Fatal, Retryable
from millpond.hoglake.client import CatalogClient
from millpond.hoglake.conform import check_can_be_written, columns_of
from millpond.hoglake.evolve import create_table, evolve, namespace_of, reconcile
from millpond.hoglake.fixed_columns import check_fixed_columns, check_none_refused
from millpond.hoglake.identity import Destination
from millpond.hoglake.layout import TableLayout, with_partition_columns
from millpond.hoglake.shape import Shape, ShapeCache
from millpond.metrics import Metrics
from millpond.records.chunk import Columns
from millpond.settings import HoglakeSettings


class LiveTable:
    """A table of a catalog, with the configured layout. What is known of it is cached.

    Without a layout it keeps the one it has, and may also be dropped at any time: it is made again. Its calls
    raise what pyhoglake raises, Fatal when a person must act, and Retryable when others alter the table all
    the time.
    """

    def __init__(
        self,
        client: CatalogClient,
        catalog: Catalog,
        settings: HoglakeSettings,
        layout: TableLayout | None,
        metrics: Metrics,
        *,
        fixed_columns: pa.Schema,
        clock: Clock,
    ) -> None:
        self._client = client
        self._catalog = catalog
        self._settings = settings
        self._layout = layout
        self._fixed_columns = fixed_columns
        self._metrics = metrics
        self._cache = ShapeCache(catalog, metrics, clock=clock)

    def __str__(self) -> str:
        return f"{self._settings.namespace}.{self._settings.table}"

    def existing(self) -> Shape | None:
        """The table as cached, else as read now; None when there is no such table.

        Raises:
            Fatal: it was there before and is no more, or it is laid out otherwise.
        """
        shape = self._cache.get()
        if shape is not None:
            return shape
        handle = self._cache.handle
        try:
            if handle is None:
                return self._look_up()
            return self._adopt(handle, handle.info(totals=False))
        except NotFoundError as error:
            if self._layout is None:
                self._cache.drop_table()
            elif self._cache.was_there:
                raise Fatal(
                    f"table {self} was dropped or renamed while "
                    "millpond wrote to it; restart to have it created again, or bring it back"
                ) from error
            return None

    def made_for(self, batch: pa.Table) -> Shape:
        """The table with the columns of `batch`: made when it is missing, altered when it lacks some.

        Raises:
            Fatal: it cannot have the configured layout.
            Retryable: it may be dropped at any time, and was meanwhile.
        """
        try:
            return self._made_for(batch)
        except NotFoundError as error:
            if self._layout is not None:
                raise
            self._cache.drop_table()
            raise Retryable(f"table {self} was dropped while it was made ready: {error}") from error

    def _made_for(self, batch: pa.Table) -> Shape:
        shape = self.existing()
        # Without a row nothing tells the types of its columns, and a guess would stay for good.
        layout = self._layout if batch.num_rows else None
        if layout is not None:
            batch = with_partition_columns(batch, shape.info if shape else None, layout)
        if shape is None:
            namespace = namespace_of(self._catalog, self._settings.namespace)
            create_table(namespace, self._settings.table, batch)
            shape = self._look_up()
        evolved = evolve(shape.handle, shape.info, batch, self._metrics, shape.refused)
        if evolved.info is not shape.info:
            check_none_refused(evolved.info, evolved.refused, self._fixed_columns)
            shape = self._adopt(shape.handle, evolved.info, evolved.refused)
        if layout is not None and layout.partition_by and shape.info.partition_spec is None:
            raise Fatal(f"table {self} could not be given the columns of {layout}")
        return shape

    def columns(self) -> Columns:
        """Those of the table as it was last read, whenever that was; none before."""
        last = self._cache.last
        return Columns() if last is None else columns_of(last.info, last.refused)

    def destination(self, shape: Shape) -> Destination:
        """What `shape` is to the identity of a flush: this name, in that incarnation."""
        settings = self._settings
        return Destination(settings.catalog, settings.namespace, settings.table, shape.info.table_uuid)

    def forget_shape(self) -> None:
        """Read the table again at its next use."""
        self._cache.drop()

    def forget(self) -> None:
        """Look the name up at its next use: this incarnation may be gone."""
        self._cache.drop_table()

    def _look_up(self) -> Shape:
        settings = self._settings
        return self._adopt(*self._client.look_up(self._catalog, settings.namespace, settings.table))

    def _adopt(self, handle: Table, info: TableInfo, refused: frozenset[str] = frozenset()) -> Shape:
        """Every door a table comes through leads here."""
        check_can_be_written(info)
        check_fixed_columns(info, self._fixed_columns)
        if self._layout is not None:
            info = reconcile(handle, info, self._layout)
        return self._cache.adopt(handle, info, refused)
