"""Where examples come from: built-in and generated sets, well-known sets, and files of one's own."""

from thresher.data.arrays import from_arrays, from_npz
from thresher.data.clean import load_clean, load_test, take_clean
from thresher.data.generated_sets import blobs, regression
from thresher.data.image_files import ImageFiles
from thresher.data.image_folders import image_folder, in_memory
from thresher.data.loading import digits, load, load_whole, names, notes_of
from thresher.data.pools import Pooled, load_with_pool
from thresher.data.predictions import Predictions, read_predictions
from thresher.data.preparation import Preparation, preparation_of
from thresher.data.scan import Scan, scan
from thresher.data.splits import Splits, hold_out, is_held_out, only_classes, split, standardise_targets
from thresher.data.streams import from_stream
from thresher.data.table_options import TableOptions
from thresher.data.tables import table

__all__ = [
    "ImageFiles",
    "Pooled",
    "Predictions",
    "Preparation",
    "Scan",
    "Splits",
    "TableOptions",
    "blobs",
    "digits",
    "from_arrays",
    "from_npz",
    "from_stream",
    "hold_out",
    "image_folder",
    "in_memory",
    "is_held_out",
    "load",
    "load_clean",
    "load_test",
    "load_whole",
    "load_with_pool",
    "names",
    "notes_of",
    "only_classes",
    "preparation_of",
    "read_predictions",
    "regression",
    "scan",
    "split",
    "standardise_targets",
    "table",
    "take_clean",
]
