"""The tables of the CRUST paper, as it prints them; its code reports the best epoch on the test set."""

from thresher.bench.definition.published import Published, printed

Numbers = dict[tuple[str, str], Published]

ROWS = ["f-correction", "decouple", "co-teaching", "mentornet", "d2l", "incv", "t-revision", "dmi", "crust"]

# Accuracy, five runs. The asymmetric column stands beside a random derangement of the classes: the paper does not say
# which map it has, and its code draws one of those.
TABLE_1: Numbers = printed(
    "Table 1",
    ROWS,
    """
    cifar10-symmetric-20   85.1±0.4 86.7±0.3 89.1±0.3 88.4±0.5 86.1±0.4 89.7±0.2 79.3±0.5 84.3±0.4 91.1±0.2
    cifar10-symmetric-50   76.0±0.2 79.3±0.6 82.1±0.6 77.1±0.4 67.4±3.6 84.8±0.3 78.5±0.6 78.8±0.5 86.3±0.3
    cifar10-symmetric-80   34.8±4.5 36.9±4.6 16.2±3.2 28.9±2.3 10.0±0.1 52.3±3.5 36.2±1.6 20.9±2.2 58.3±1.8
    cifar10-derangement-40 83.6±2.2 75.3±0.8 84.6±2.8 77.3±0.8 85.6±1.2 86.0±0.5 76.3±0.8 84.8±0.7 88.8±0.4
    cifar100-symmetric-20  55.8±0.5 57.6±0.5 64.0±0.3 63.0±0.4 12.5±4.2 60.2±0.2 52.4±0.3 56.8±0.4 65.2±0.2
    cifar100-symmetric-50  43.3±0.7 45.7±0.4 52.3±0.4 46.4±0.4  5.6±5.4 53.1±0.4 37.6±0.3 42.2±0.5 56.4±0.4
    cifar100-derangement-40 42.3±0.7 43.1±0.4 47.7±1.2 42.4±0.5 14.1±5.8 50.7±0.2 32.3±0.4 39.5±0.4 53.0±0.2
    """,
    score="best",
)

# Top-1 accuracy on the validation images of WebVision; the paper also has top-5, and ImageNet's validation images.
TABLE_3: Numbers = printed(
    "Table 3",
    ["f-correction", "decouple", "co-teaching", "mentornet", "d2l", "incv", "crust"],
    "mini-webvision 61.12 62.54 63.58 63.00 62.68 65.24 72.40",
    score="best",
)
