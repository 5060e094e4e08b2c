"""Tables as folders of Parquet files that Spark's own tasks write.

A file that this process writes takes every row through the driver. A folder is written by tasks,
wherever Spark can write: here, on hdfs://, s3a://. It is written beside its place, under a name of
ours, and renamed when all of it is there, by the file system that the place is on.

Spark Connect has no way to rename. There the tasks write to the place itself, and Spark puts a file
_SUCCESS beside the others at the end: until then it is not whole.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

from lapis.errors import LapisError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class FolderPlace:
    """Where a folder is to appear, on whatever file system Spark finds there."""

    def __init__(self, session: SparkSession, target: str) -> None:
        self.session, self.target = session, target.rstrip("/")
        self._jvm: Any = getattr(session, "_jvm", None)  # None of Spark Connect
        if self._jvm is not None:
            self._path = self._jvm.org.apache.hadoop.fs.Path(self.target)
            java: Any = session._jsc
            self._files = self._path.getFileSystem(java.hadoopConfiguration())

    def refuse(self) -> None:
        """Refuse a place that is taken, or in a folder that is not there."""
        if self._jvm is None:
            return
        if self._files.exists(self._path):
            raise LapisError(
                f"{self.target}: cannot be written: it exists",
                code="unwritable",
                hint="remove it, or name another folder",
            )
        parent = self._path.getParent()
        if parent is not None and not self._files.exists(parent):
            raise LapisError(
                f"{self.target}: cannot be written: no folder {parent.toString()}",
                code="unwritable",
            )

    def write(self, table: str) -> None:
        """Write a table of the session's; nothing is left where that fails."""
        rows = self.session.table(table).write.mode("error")
        if self._jvm is None:
            rows.parquet(self.target)
            return
        name = f".{self._path.getName()}.lapis_{secrets.token_hex(8)}"
        beside = self._jvm.org.apache.hadoop.fs.Path(self._path.getParent(), name)
        try:
            rows.parquet(beside.toString())
            self.refuse()  # a rename would move it into a folder that came meanwhile
            if not self._files.rename(beside, self._path):
                raise LapisError(f"{self.target}: cannot be written", code="unwritable")
        finally:
            self._files.delete(beside, True)
