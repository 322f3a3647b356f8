"""What an exported program does with the cells of a table, so that a loader only has to turn them into numbers.

A cell is a number; the place of a text among the known ones, -1 for another; or the days since 1970 with the time as
their fraction. It is NaN where nothing stands in the table.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from thresher.data.column_encoders import DAY, WEEK, YEAR, Categories, Dates, Encoder, Numbers

EPOCH = 719_468  # days from 0000-03-01 to 1970-01-01; years that begin in March end with their leap day
CYCLE, CENTURY, FOUR_YEARS = 146_097, 36_524, 1_461  # days of 400, 100 and 4 years
JANUARY = 306  # days from 1 March to 1 January


class EncodedCells(nn.Module):
    """Cells [n, columns] in double precision -> inputs [n, k] in single precision, as the encoders give them."""

    def __init__(self, encoders: Sequence[Encoder]):
        super().__init__()
        self.encoders = tuple(encoders)

    def forward(self, cells: Tensor) -> Tensor:
        columns = zip(self.encoders, cells.unbind(1), strict=True)
        return torch.cat([_encoded(encoder, column) for encoder, column in columns], 1)


def _encoded(encoder: Encoder, column: Tensor) -> Tensor:
    """The inputs [n, k] of one column [n]."""
    gaps = column.isnan()
    if isinstance(encoder, Categories):
        nothing = encoder.known.index("") if "" in encoder.known else -1
        places = torch.where(gaps, nothing, column)
        return (places[:, None] == torch.arange(len(encoder.known), dtype=column.dtype)).float()
    if isinstance(encoder, Numbers):
        made = [(torch.where(gaps, encoder.median, column) - encoder.mean) / encoder.deviation]
    else:
        made = [torch.where(gaps, 0.0, part) for part in _date(encoder, torch.where(gaps, 0.0, column))]
    return torch.stack([*made, gaps.to(column.dtype)] if encoder.marks_gaps else made, 1).float()


def _date(encoder: Dates, days: Tensor) -> list[Tensor]:
    """The day, standardised, and sine and cosine of its place in the year, in the week and of the time in the day."""
    turns = [day_in_year(days) / YEAR, _rest(days.floor() + 3, WEEK) / WEEK]  # day 0 is a Thursday
    turns += [_rest(days, DAY)] if encoder.has_times else []
    angles = [2 * math.pi * turn + shift for turn in turns for shift in (0.0, math.pi / 2)]
    return [(days - encoder.mean) / encoder.deviation, *map(torch.sin, angles)]


def day_in_year(days: Tensor) -> Tensor:
    """The days since 1 January, of days since 1970, by arithmetic alone, which every format of programs knows.

    >>> day_in_year(torch.tensor([0.5, 58.0, 59.0, 789.0, 790.0, -1.0], dtype=torch.float64)).tolist()
    [0.5, 58.0, 59.0, 59.0, 60.0, 364.0]
    """
    day = days.floor()
    in_cycle = _rest(day + EPOCH, CYCLE)
    leaps = (in_cycle / (FOUR_YEARS - 1)).floor() - (in_cycle / CENTURY).floor() + (in_cycle / (CYCLE - 1)).floor()
    year = ((in_cycle - leaps) / 365).floor()
    since_march = in_cycle - (365 * year + (year / 4).floor() - (year / 100).floor())
    is_leap = (_rest(year, 4) == 0) & ((_rest(year, 100) != 0) | (_rest(year, 400) == 0))
    later = since_march + 59 + is_leap.to(day.dtype)
    return torch.where(since_march >= JANUARY, since_march - JANUARY, later) + days - day


def _rest(values: Tensor, by: float) -> Tensor:
    """The remainder, at least 0."""
    return values - by * (values / by).floor()
