"""The tables of the index, and how those of an older index become these."""

from collections.abc import Mapping
from types import MappingProxyType

VERSION = 3
"""What `PRAGMA user_version` says. Version 1 had no tensors, and version 2 the SHA-256 of every file."""

_WITHOUT_TENSORS = """
CREATE TABLE objects(
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    digest TEXT NOT NULL UNIQUE,
    size INTEGER NOT NULL);
CREATE TABLE refs(
    referrer INTEGER NOT NULL REFERENCES objects(id) ON DELETE CASCADE,
    reference INTEGER NOT NULL REFERENCES objects(id) DEFERRABLE INITIALLY DEFERRED,
    PRIMARY KEY(referrer, reference)) WITHOUT ROWID;
CREATE INDEX refs_by_reference ON refs(reference);
CREATE TABLE files(
    blake3 TEXT PRIMARY KEY,
    sha256 TEXT NOT NULL,
    size INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE object_files(
    object INTEGER NOT NULL REFERENCES objects(id) ON DELETE CASCADE,
    blake3 TEXT NOT NULL,
    PRIMARY KEY(object, blake3)) WITHOUT ROWID;
CREATE INDEX object_files_by_blake3 ON object_files(blake3);
CREATE TABLE derivations(
    digest TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE derivation_outputs(
    derivation TEXT NOT NULL,
    name TEXT NOT NULL,
    object TEXT NOT NULL,
    PRIMARY KEY(derivation, name)) WITHOUT ROWID;
CREATE INDEX derivation_outputs_by_object ON derivation_outputs(object);
CREATE TABLE realisations(
    key TEXT NOT NULL,
    build TEXT NOT NULL,
    sequence INTEGER NOT NULL,
    record TEXT NOT NULL,
    PRIMARY KEY(key, build)) WITHOUT ROWID;
CREATE TABLE plans(
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL);
CREATE TABLE plan_objects(
    plan TEXT NOT NULL REFERENCES plans(key) ON DELETE CASCADE,
    object TEXT NOT NULL,
    PRIMARY KEY(plan, object)) WITHOUT ROWID;
CREATE INDEX plan_objects_by_object ON plan_objects(object);
CREATE TRIGGER forget_what_named_an_object AFTER DELETE ON objects BEGIN
    DELETE FROM plans WHERE key IN (SELECT plan FROM plan_objects WHERE object = old.digest);
    DELETE FROM derivation_outputs WHERE object = old.digest;
END;
"""

_TENSORS = """
CREATE TABLE tensors(
    file TEXT NOT NULL REFERENCES files(blake3) ON DELETE CASCADE,
    name TEXT NOT NULL,
    dtype TEXT NOT NULL,
    shape TEXT NOT NULL,
    offset INTEGER NOT NULL,
    length INTEGER NOT NULL,
    blake3 TEXT NOT NULL,
    PRIMARY KEY(file, name)) WITHOUT ROWID;
CREATE INDEX tensors_by_blake3 ON tensors(blake3, length);
CREATE TABLE unscanned_objects(
    last INTEGER NOT NULL);
"""

# Nobody knows yet whether the objects that came in before hold tensors. One row says so for all of them: the disk may
# be full, and a collection has to open the index first.
_NOT_YET_SCANNED = "INSERT INTO unscanned_objects(last) SELECT coalesce(max(id), 0) FROM objects;"

# An empty text where a SHA-256 belongs says that nobody asked for it yet. A column that may lack it would have to be
# made by copying its table, for which a full disk has no room. Of an older index this makes one page more.
_UNASKED_SHA256 = "CREATE INDEX files_without_sha256 ON files(size) WHERE sha256 = '';"

SCHEMA = _WITHOUT_TENSORS + _TENSORS + _UNASKED_SHA256
"""Makes all tables of an empty index."""

TABLES = (
    "tensors",
    "unscanned_objects",
    "plans",
    "realisations",
    "derivation_outputs",
    "derivations",
    "refs",
    "object_files",
    "files",
    "objects",
)
"""Their names; a table stands before those that it refers to."""

UPGRADES: Mapping[int, str] = MappingProxyType(
    {
        0: SCHEMA,
        1: _TENSORS + _NOT_YET_SCANNED + _UNASKED_SHA256,
        2: _UNASKED_SHA256,
    }
)
"""What makes the index of an older version one of this version, in one transaction; 0 is an empty file."""

FOR_READING: Mapping[int, str] = MappingProxyType(
    {
        VERSION: "",
        2: "",
        1: """
CREATE TEMP VIEW tensors AS
    SELECT '' AS file, '' AS name, '' AS dtype, '' AS shape, 0 AS offset, 0 AS length, '' AS blake3
    WHERE false;
CREATE TEMP VIEW unscanned_objects AS SELECT coalesce(max(id), 0) AS last FROM main.objects;
""",
    }
)
"""What makes up for the tables that the index of a version lacks, where it may only be read."""
