"""Archives of arrays (`.npz`) and single arrays (`.npy`), which are checked before they are read.

Every array must have the size that its header declares, so that a damaged file cannot make the
process allocate more than the file holds. Nothing in a file is executed.
"""

from __future__ import annotations

import io
import struct
import sys
import tokenize
import warnings
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

import numpy as np

from lapis.runtime.limits import machine_memory

SUFFIX = ".npy"  # of a member of an archive
# What reading may raise on damaged bytes.
DAMAGED = (
    EOFError, ValueError, KeyError, TypeError, IndexError, OverflowError, SyntaxError,
    NotImplementedError, RuntimeError, SystemError, tokenize.TokenError, struct.error, zlib.error,
    zipfile.BadZipFile, MemoryError,
)  # fmt: skip


class DamagedFile(ValueError):
    """A file is not an intact archive or array."""


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray], compressed: bool = False) -> None:
    """Write an archive; the same arrays give the same bytes."""
    method = zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, array in arrays.items():
            member = zipfile.ZipInfo(name + SUFFIX)
            member.compress_type = method
            with archive.open(member, "w", force_zip64=True) as stream:
                np.lib.format.write_array(stream, array, allow_pickle=False)


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """Read all arrays of an archive.

    Raises
    ------
    OSError
        If the file cannot be read.
    DamagedFile
        If it is not an archive of arrays, or a damaged one.
    """
    content = path.read_bytes()
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = archive.infolist()
            if sum(member.file_size for member in members) > machine_memory():
                raise ValueError
            return {
                member.filename.removesuffix(SUFFIX): read_array(archive.read(member))
                for member in members
            }
    except DAMAGED as error:
        raise DamagedFile(str(error)) from None


def read_single_array(path: Path) -> np.ndarray:
    """Read a `.npy` file; raise as `read_arrays` does."""
    content = path.read_bytes()
    try:
        return read_array(content)
    except DAMAGED as error:
        raise DamagedFile(str(error)) from None


def read_array(content: bytes) -> np.ndarray:
    """Read an array from the bytes of a `.npy` file; ValueError if its size is not declared."""
    stream = io.BytesIO(content)
    count, dtype = read_shape(stream)
    if dtype.hasobject:
        raise ValueError("an array of Python objects")
    if count < 0 or count * dtype.itemsize != len(content) - stream.tell():
        raise ValueError("an array of another size than declared")
    stream.seek(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        array = np.lib.format.read_array(stream, allow_pickle=False)
    if dtype.kind == "U":
        code = np.frombuffer(array.tobytes(), np.dtype(np.uint32).newbyteorder(dtype.byteorder))
        if (code > sys.maxunicode).any():
            raise ValueError("a text that is not Unicode")
    return array


def read_shape(stream: BinaryIO) -> tuple[int, np.dtype]:
    """Return the number of entries and their type that a header declares."""
    version = np.lib.format.read_magic(stream)
    readers = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # old names of types
        shape, _, dtype = readers[version](stream)
    count = 1
    for size in shape:
        if size < 0:
            raise ValueError("a negative size")
        count *= size
    return count, dtype
