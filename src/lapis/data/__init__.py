"""Relational data: constants interned per type, relations as integer columns, files and frames."""

from lapis.data.binding import bind
from lapis.data.database import Database, Domain, Relation
from lapis.data.merging import merge
from lapis.data.paths import read_worlds

__all__ = ["Database", "Domain", "Relation", "bind", "merge", "read_worlds"]
