"""Tasks and the labelling interface, as Label Studio imports them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from xml.sax.saxutils import quoteattr

ID = "thresher_id"  # Label Studio numbers its tasks itself, so the id of the example travels with its data
IMAGE, ROW = "image", "row"
QUESTION = "question"  # what stands above an example that has a label already

Shown = Mapping[str, Any]  # what is shown of one example: {"image": address} or {"row": {column: value}}, and QUESTION


def tasks(ids: Sequence[int], shown: Sequence[Shown]) -> list[dict[str, Any]]:
    """Label Studio's JSON import format: one task an example, without predictions, which would be filled in for people.

    >>> tasks([17], [{"row": {"age": 3}}])
    [{'data': {'thresher_id': 17, 'row': {'age': 3}}}]
    """
    return [{"data": {ID: id_, **seen}} for id_, seen in zip(ids, shown, strict=True)]


@dataclass(frozen=True)
class Answers:
    """What people may answer: one of some classes, or, without them, a number in steps of this size."""

    class_names: Sequence[str] | None
    step: float = 1.0


def interface(answers: Answers, shown: Shown) -> str:
    """The labelling interface: an image or a row of a table, and one choice, or a number.

    >>> print(interface(Answers(["cat", "dog"]), {"image": "data:..."}))
    <View>
      <Image name="example" value="$image"/>
      <Choices name="label" toName="example" choice="single">
        <Choice value="cat"/>
        <Choice value="dog"/>
      </Choices>
    </View>
    """
    kind, tag = (IMAGE, "Image") if IMAGE in shown else (ROW, "Table")
    above = [f'  <Header value="${QUESTION}"/>'] if QUESTION in shown else []
    return "\n".join(["<View>", *above, f'  <{tag} name="example" value="${kind}"/>', *_question(answers), "</View>"])


def _question(answers: Answers) -> list[str]:
    if answers.class_names is None:
        return [f'  <Number name="label" toName="example" step="{answers.step:.12f}"/>']
    choices = [f"    <Choice value={quoteattr(name)}/>" for name in answers.class_names]
    return ['  <Choices name="label" toName="example" choice="single">', *choices, "  </Choices>"]
