"""Vectors in files: .npy and .npz arrays, and columns of lists in Parquet files."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import compute, parquet

from thresher.core.errors import ThresherError
from thresher.core.files import UNREADABLE
from thresher.data.table_files import read_table

INPUTS = ("inputs", "embeddings", "features", "X", "x")  # what the array to learn from may be called


def read_vectors(path: Path) -> NDArray[Any]:
    """The inputs [n, ...] of a file, whatever else it holds."""
    if not path.exists():
        raise ThresherError(f"There is no file {path}: check the path.")
    if path.suffix == ".npy":
        return read_npy(path)
    if path.suffix == ".npz":
        return _one_of(path)
    column = vector_column(path) if path.suffix == ".parquet" else None
    if column is None:
        raise ThresherError(
            f"{path} holds no array, and the run was trained on arrays: give an .npy, .npz or .parquet file of vectors."
        )
    return vectors_in(read_table(path), column, path)


def read_npy(path: Path) -> NDArray[Any]:
    """The array of an .npy file."""
    try:
        array = np.load(path, allow_pickle=False)
    except FileNotFoundError:
        raise ThresherError(f"There is no file {path}: check the path.") from None
    except UNREADABLE as error:
        raise ThresherError(f"{path} cannot be read ({error}): write it again with numpy.save.") from error
    if not isinstance(array, np.ndarray):
        raise ThresherError(f"{path} holds no single array: write it again with numpy.save.")
    return array


def _one_of(path: Path) -> NDArray[Any]:
    """Of several arrays, the one to predict."""
    try:
        with np.load(path, allow_pickle=False) as arrays:
            wanted = first_known(arrays.files, ("images", *INPUTS, "test_images"))
            if wanted is None and len(arrays.files) != 1:
                raise ThresherError(f"{path} has several arrays: name the one to predict 'inputs'.")
            array: NDArray[Any] = arrays[wanted or arrays.files[0]]
            return array
    except UNREADABLE as error:
        raise ThresherError(f"{path} cannot be read ({error}): write it again with numpy.savez.") from error


def first_known(names: Iterable[str], wanted: tuple[str, ...]) -> str | None:
    """The first of the wanted names that there is."""
    known = set(names)
    return next((name for name in wanted if name in known), None)


def vector_column(path: Path) -> str | None:
    """The column of a Parquet file that holds lists of numbers, if it has one; a file that is no Parquet has none."""
    try:
        schema = parquet.read_schema(path)
    except (pa.ArrowException, OSError):
        return None
    found = [field.name for field in schema if _is_vectors(field.type)]
    if len(found) > 1:
        raise ThresherError(
            f"{path} has several columns of lists ({', '.join(found)}): keep only the one to learn from."
        )
    return found[0] if found else None


def _is_vectors(kind: Any) -> bool:
    lists = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    return any(test(kind) for test in lists) and (
        pa.types.is_floating(kind.value_type) or pa.types.is_integer(kind.value_type)
    )


def vectors_in(rows: Any, column: str, path: Path) -> NDArray[Any]:
    """The lists of a column as one array [n, d]."""
    vectors = rows.column(column).combine_chunks()
    lengths = compute.list_value_length(vectors).unique().to_pylist()
    values = vectors.flatten()
    if len(lengths) != 1 or lengths[0] is None or values.null_count:
        raise ThresherError(f"The lists in {column} of {path} differ in length or have gaps: make them all alike.")
    array: NDArray[Any] = values.to_numpy(zero_copy_only=False).reshape(len(rows), lengths[0])
    return array
