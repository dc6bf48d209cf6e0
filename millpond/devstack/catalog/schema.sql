-- Rows with begin_snapshot and end_snapshot are versioned: visible at S when begin <= S and (end is null or S < end).
-- Instants are integer microseconds since the epoch. Nested values (column trees, partition values) are JSON text.

CREATE TABLE catalog (
  catalog_id        INTEGER PRIMARY KEY,
  name              TEXT NOT NULL UNIQUE,
  data_path         TEXT NOT NULL,
  head              INTEGER NOT NULL DEFAULT 0,
  schema_version    INTEGER NOT NULL DEFAULT 0,
  floor             INTEGER NOT NULL DEFAULT 0,
  floor_time_us     INTEGER,
  retention_seconds INTEGER,
  consumer_floor    INTEGER NOT NULL DEFAULT 1,
  next_namespace_id INTEGER NOT NULL DEFAULT 1,
  next_table_id     INTEGER NOT NULL DEFAULT 1,
  next_view_id      INTEGER NOT NULL DEFAULT 1,
  next_file_id      INTEGER NOT NULL DEFAULT 1
);

CREATE TABLE snapshot (
  catalog_id     INTEGER NOT NULL REFERENCES catalog ON DELETE CASCADE,
  snapshot_id    INTEGER NOT NULL,
  time_us        INTEGER NOT NULL,
  schema_version INTEGER NOT NULL,
  author         TEXT,
  message        TEXT,
  PRIMARY KEY (catalog_id, snapshot_id)
);
CREATE INDEX snapshot_by_time ON snapshot (catalog_id, time_us);

CREATE TABLE change (
  catalog_id  INTEGER NOT NULL REFERENCES catalog ON DELETE CASCADE,
  snapshot_id INTEGER NOT NULL,
  position    INTEGER NOT NULL,
  kind        TEXT NOT NULL,
  object_id   INTEGER NOT NULL,
  PRIMARY KEY (catalog_id, snapshot_id, position)
) WITHOUT ROWID;
CREATE INDEX change_by_object ON change (catalog_id, object_id, kind, snapshot_id);

CREATE TABLE namespace (
  catalog_id     INTEGER NOT NULL REFERENCES catalog ON DELETE CASCADE,
  namespace_id   INTEGER NOT NULL,
  name           TEXT NOT NULL,
  begin_snapshot INTEGER NOT NULL,
  end_snapshot   INTEGER,
  PRIMARY KEY (catalog_id, namespace_id)
);
CREATE UNIQUE INDEX live_namespace ON namespace (catalog_id, name) WHERE end_snapshot IS NULL;

CREATE TABLE table_identity (
  catalog_id       INTEGER NOT NULL REFERENCES catalog ON DELETE CASCADE,
  table_id         INTEGER NOT NULL,
  table_uuid       TEXT NOT NULL,
  next_row_id      INTEGER NOT NULL DEFAULT 0,
  dropped_snapshot INTEGER,
  PRIMARY KEY (catalog_id, table_id),
  UNIQUE (catalog_id, table_uuid)
);

CREATE TABLE table_version (
  catalog_id     INTEGER NOT NULL REFERENCES catalog ON DELETE CASCADE,
  table_id       INTEGER NOT NULL,
  namespace_id   INTEGER NOT NULL,
  name           TEXT NOT NULL,
  shape          TEXT NOT NULL,
  begin_snapshot INTEGER NOT NULL,
  end_snapshot   INTEGER,
  PRIMARY KEY (catalog_id, table_id, begin_snapshot)
);
CREATE INDEX table_version_by_name ON table_version (catalog_id, namespace_id, name, begin_snapshot);
CREATE UNIQUE INDEX live_table ON table_version (catalog_id, namespace_id, name) WHERE end_snapshot IS NULL;

CREATE TABLE data_file (
  catalog_id        INTEGER NOT NULL REFERENCES catalog ON DELETE CASCADE,
  data_file_id      INTEGER NOT NULL,
  table_id          INTEGER NOT NULL,
  path              TEXT NOT NULL,
  file_format       TEXT NOT NULL,
  record_count      INTEGER NOT NULL,
  file_size_bytes   INTEGER NOT NULL,
  footer_size       INTEGER,
  row_id_start      INTEGER NOT NULL,
  spec_id           INTEGER,
  partition_values  TEXT,
  split_offsets     TEXT,
  stats_state       TEXT NOT NULL,
  explicit_row_ids  INTEGER NOT NULL DEFAULT 0,
  missing_field_ids INTEGER NOT NULL DEFAULT 0,
  begin_snapshot    INTEGER NOT NULL,
  end_snapshot      INTEGER,
  PRIMARY KEY (catalog_id, data_file_id)
);
CREATE INDEX data_file_by_table ON data_file (catalog_id, table_id, begin_snapshot);
CREATE INDEX data_file_by_path ON data_file (catalog_id, path);

CREATE TABLE column_stats (
  catalog_id   INTEGER NOT NULL,
  data_file_id INTEGER NOT NULL,
  field_id     INTEGER NOT NULL,
  value_count  INTEGER NOT NULL,
  null_count   INTEGER NOT NULL,
  nan_count    INTEGER,
  size_bytes   INTEGER,
  lower_bound  BLOB,
  upper_bound  BLOB,
  PRIMARY KEY (catalog_id, data_file_id, field_id),
  FOREIGN KEY (catalog_id, data_file_id) REFERENCES data_file ON DELETE CASCADE
) WITHOUT ROWID;

CREATE TABLE delete_file (
  catalog_id      INTEGER NOT NULL REFERENCES catalog ON DELETE CASCADE,
  delete_file_id  INTEGER NOT NULL,
  data_file_id    INTEGER NOT NULL,
  table_id        INTEGER NOT NULL,
  path            TEXT NOT NULL,
  delete_count    INTEGER NOT NULL,
  file_size_bytes INTEGER NOT NULL,
  begin_snapshot  INTEGER NOT NULL,
  end_snapshot    INTEGER,
  PRIMARY KEY (catalog_id, delete_file_id)
);
CREATE INDEX delete_file_by_target ON delete_file (catalog_id, data_file_id);
CREATE INDEX delete_file_by_table ON delete_file (catalog_id, table_id, begin_snapshot);
CREATE INDEX delete_file_by_path ON delete_file (catalog_id, path);

CREATE TABLE view (
  catalog_id     INTEGER NOT NULL REFERENCES catalog ON DELETE CASCADE,
  view_id        INTEGER NOT NULL,
  namespace_id   INTEGER NOT NULL,
  name           TEXT NOT NULL,
  view_uuid      TEXT NOT NULL,
  dialect        TEXT NOT NULL,
  sql            TEXT NOT NULL,
  begin_snapshot INTEGER NOT NULL,
  end_snapshot   INTEGER,
  PRIMARY KEY (catalog_id, view_id)
);
CREATE UNIQUE INDEX live_view ON view (catalog_id, namespace_id, name) WHERE end_snapshot IS NULL;

CREATE TABLE receipt (
  catalog_id     INTEGER NOT NULL REFERENCES catalog ON DELETE CASCADE,
  operation_id   TEXT NOT NULL,
  fingerprint    BLOB NOT NULL,
  snapshot_id    INTEGER NOT NULL,
  schema_version INTEGER NOT NULL,
  created_us     INTEGER NOT NULL,
  PRIMARY KEY (catalog_id, operation_id)
) WITHOUT ROWID;

CREATE TABLE consumer_offset (
  catalog_id         INTEGER NOT NULL REFERENCES catalog ON DELETE CASCADE,
  consumer_id        TEXT NOT NULL,
  table_uuid         TEXT NOT NULL,
  committed_snapshot INTEGER NOT NULL,
  updated_us         INTEGER NOT NULL,
  PRIMARY KEY (catalog_id, consumer_id, table_uuid)
) WITHOUT ROWID;

CREATE TABLE removal (
  catalog_id INTEGER NOT NULL REFERENCES catalog ON DELETE CASCADE,
  path       TEXT NOT NULL,
  queued_us  INTEGER NOT NULL,
  PRIMARY KEY (catalog_id, path)
) WITHOUT ROWID;

CREATE TABLE table_creation (
  catalog_id     INTEGER NOT NULL REFERENCES catalog ON DELETE CASCADE,
  operation_id   TEXT NOT NULL,
  table_uuid     TEXT NOT NULL,
  namespace_id   INTEGER NOT NULL,
  namespace      TEXT NOT NULL,
  name           TEXT NOT NULL,
  shape          TEXT NOT NULL,
  fingerprint    BLOB NOT NULL,
  author         TEXT,
  message        TEXT,
  state          TEXT NOT NULL,
  reason         TEXT,
  files          BLOB,
  expires_us     INTEGER NOT NULL,
  snapshot_id    INTEGER,
  schema_version INTEGER,
  PRIMARY KEY (catalog_id, operation_id)
) WITHOUT ROWID;
