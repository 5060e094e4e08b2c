"""The base class of results of recipes, and the folder that they are written to.

FOLDER/
  model.mln     the model with its weights; the comment at its head has the command to run it
  data/         the facts, a CSV file for each predicate
  NAME.csv      a table of the result, for each of `frames`
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from lapis.data.atomic_write import save_path
from lapis.data.database import Database
from lapis.data.formats.duckdb_tables import write_tables
from lapis.errors import LapisError
from lapis.language.model import Model
from lapis.results.columns import as_array
from lapis.results.result import Columns, Result

MODEL_FILE = "model.mln"
DATA_FOLDER = "data"


class RecipeResult(Result):
    """Base class of results of recipes: a model and facts, and what was found with them."""

    @property
    @abstractmethod
    def query(self) -> str:
        """The predicates that the model predicts, separated by commas."""

    @property
    def only_listed(self) -> bool:
        """Whether only atoms that the data mention are answered."""
        return False

    @property
    @abstractmethod
    def model(self) -> Model:
        """The model with its weights."""

    @property
    @abstractmethod
    def data(self) -> Database:
        """The facts that the model was applied to, with the unknown atoms of the query."""

    @abstractmethod
    def frames(self) -> Mapping[str, Columns]:
        """Return the tables of the result by name, each written as a CSV file."""

    def about(self) -> list[str]:
        """Return the lines of the comment at the head of the model."""
        return [self.summary()]

    def command(self) -> str:
        """Return the command that applies the model to the facts, in the folder of both."""
        listed = " --only-listed" if self.only_listed else ""
        return f"lapis infer {MODEL_FILE} {DATA_FOLDER} -q {self.query}{listed}"

    def model_text(self) -> str:
        """Return the text of the model with a comment at its head.

        Returns
        -------
        str
            Declarations and weighted formulas, as `lapis.parse` reads them.
        """
        from lapis.language.printer import print_model

        lines = [*self.about(), f"To run it again: {self.command()}"]
        return print_model(self.model, title="\n".join(lines))

    def save(self, folder: str | Path) -> None:
        """Write the model, the facts and the tables of the result to a new folder.

        Parameters
        ----------
        folder
            A folder that does not exist yet. It is written atomically.

        Raises
        ------
        LapisError
            If the folder exists or cannot be written.
        """
        path = Path(folder)
        check_folder(path)
        save_path(path, self._write_files, folder=True)

    def _write_files(self, folder: Path) -> None:
        """Write all files to an empty folder."""
        (folder / MODEL_FILE).write_text(self.model_text(), encoding="utf-8")
        self.data.write(folder / DATA_FOLDER, format="csv")
        write_tables(folder, {n: as_cells(f) for n, f in self.frames().items()}, "csv")


def as_cells(columns: Columns) -> dict[str, np.ndarray]:
    """Return the columns as arrays that DuckDB reads."""
    return {name: np.asarray(as_array(values)) for name, values in columns.items()}


def check_folder(path: Path) -> None:
    """Raise if a path exists: a folder of a recipe is always new."""
    if path.exists():
        raise LapisError(
            f"{path}: cannot be written: it exists",
            code="unwritable",
            hint="name a new folder, or remove this one",
        )
