"""A first comparison: handwritten digits with 40% wrong labels."""

from thresher.bench.definition.grid import Cell, Entry
from thresher.bench.definition.setup import Setup
from thresher.bench.definition.suite import Scale, Suite

DEMO = Suite(
    name="demo",
    title="Digits with 40% wrong labels",
    methods=(
        Entry("standard", "Standard"),
        Entry("spl", "SPL"),
        Entry("prl-l", "PRL(L)"),
        Entry("prl-g", "PRL(G)"),
        Entry("co-teaching", "Co-teaching"),
        Entry("gce", "GCE"),
    ),
    scales={
        "small": Scale(
            cells=(
                Cell("symmetric-40", "digits", "symmetric:0.4", noise_rate=0.4),
                Cell("pairflip-40", "digits", "pairflip:0.4", noise_rate=0.4),
            ),
            setup=Setup(model="mlp:256x256", batch=64, epochs=60, seeds=3, learning_rate=1e-3),
        )
    },
    missing={"paper": "The suite demo follows no paper, so it has no paper scale: give --scale small."},
)
