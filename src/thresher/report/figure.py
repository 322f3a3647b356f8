"""A figure of the page: a chart, and a sentence that explains it."""

from dataclasses import dataclass

from thresher.report.charts import Spec


@dataclass(frozen=True)
class Figure:
    """A titled chart with the sentence under its title; square ones are as high as they are wide."""

    title: str
    words: str
    spec: Spec
    square: bool = False
