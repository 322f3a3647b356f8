"""What all tests share: one thread, so that they can run side by side, a cache of their own, and a browser."""

import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest
import torch

# From here on and not in a fixture: modules train while they are collected, and processes that tests start inherit it.
# With as many threads in each process as there are cores, most of their time goes into waiting for each other.
os.environ["OMP_NUM_THREADS"] = "1"
torch.set_num_threads(1)

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PATIENCE = 120_000  # milliseconds, for a machine that has much else to do
MISSING = "Pages were not checked in a browser: there is no chromium on this machine (apt-get install chromium)."


@pytest.fixture(autouse=True, scope="session")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("THRESHER_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A browser; without one the tests are skipped, but for the machines of CI, which must have it."""
    chromium = shutil.which("chromium")
    if chromium is None and os.environ.get("CI") == "true":
        pytest.fail(MISSING)
    if chromium is None:
        pytest.skip(MISSING)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=chromium, args=FLAGS, timeout=PATIENCE)
        open_page = started.new_page

        def new_page(**options: Any) -> Any:
            page = open_page(**options)
            page.set_default_timeout(PATIENCE)
            return page

        started.new_page = new_page  # type: ignore[method-assign]
        yield started
        started.close()


def without_surrogates(told: Any) -> Any:
    """The same with characters that no encoding holds written out; xdist's workers would end at them."""
    if isinstance(told, str):
        return told.encode(errors="backslashreplace").decode()
    if isinstance(told, dict):
        return {without_surrogates(key): without_surrogates(value) for key, value in told.items()}
    return type(told)(map(without_surrogates, told)) if type(told) in (list, tuple) else told


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable() -> Iterator[Any]:
    """What a worker reports to the process that sums up."""
    return without_surrogates((yield))  # type: ignore[misc]
