"""Files and frames → databases: constants interned per type, relations as integer columns."""

from lapis.data.binding import bind, merge
from lapis.data.database import Database, Domain, Relation
from lapis.data.files import read_worlds

__all__ = ["Database", "Domain", "Relation", "bind", "merge", "read_worlds"]
