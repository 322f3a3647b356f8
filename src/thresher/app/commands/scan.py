"""thresher scan"""

from typing import Annotated

import typer

Data = Annotated[
    str, typer.Argument(metavar="DATA", help="A folder of images, with a size in pixels after a colon: photos:64.")
]


def scan(data: Data) -> None:
    """Look through a folder of images before training: everything that is wrong with it, at once.

    Example: thresher scan photos/

    Lists files that cannot be read, classes with no image or one, the same image in several classes or sets, pixels
    that are scaled or composed, formats that are not read, and what decoding costs. Training uses what was decoded.
    """
    from thresher.app.terminal import plain_console
    from thresher.data import scan as look_through
    from thresher.data.image_files import size_of
    from thresher.data.splits import path_and_option

    folder, size = path_and_option(data)
    console = plain_console()
    for line in look_through(folder, size_of(size)).lines():
        console.print(line, soft_wrap=True)
