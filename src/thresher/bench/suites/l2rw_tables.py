"""The tables of the L2RW paper, as it prints them: accuracy in percent ± a 95% interval over five splits."""

from thresher.bench.definition.published import Published, printed

Numbers = dict[tuple[str, str], Published]

# UNIFORMFLIP 40%, WRN-28-10, 1,000 clean images. The MentorNet numbers are copied from its own paper.
TABLE_1: Numbers = printed(
    "Table 1",
    [
        "standard", "bootstrap-hard", "s-model", "mentornet", "random-weights", "clean-only", "standard+ft",
        "mentornet+ft", "random-weights+ft", "l2rw",
    ],
    """
    cifar10-uniform-40  67.97±0.62 69.66±1.21 70.64±3.09 76.6 86.06±0.32 46.64±3.90 78.66±0.44 78 86.55±0.24 86.92±0.19
    cifar100-uniform-40 50.66±0.24 51.34±0.17 49.10±0.58 56.9 58.01±0.37 9.94±0.82  54.52±0.40 59 58.54±0.52 61.34±2.06
    """,
)  # fmt: skip

# BACKGROUNDFLIP 40%, ResNet-32, 10 clean images of each class. On CIFAR-100 Weighted repeats Random: probably a slip.
TABLE_2: Numbers = {
    **printed(
        "Table 2",
        [
            "standard", "standard+es", "random-weights", "weighted-oracle", "bootstrap-soft+es", "bootstrap-hard+es",
            "s-model", "s-model-conf", "s-model-conf+es",
        ],
        """
        cifar10-background-40  59.54±2.16 64.96±1.19 69.51±1.36 79.17±1.36 63.47±1.05 65.22±1.06 58.60±2.33 68.93±1.09 79.24±0.56
        cifar100-background-40 37.82±0.69 39.08±0.65 36.56±0.44 36.56±0.44 38.44±0.90 39.03±0.55 37.02±0.34 46.72±1.87 54.50±2.51
        """,  # noqa: E501  # a table is read by its lines
    ),
    **printed(
        "Table 2",
        [
            "clean-only", "standard+ft", "standard+es+ft", "weighted-oracle+ft", "s-model-conf+ft",
            "s-model-conf+es+ft", "l2rw",
        ],
        """
        cifar10-background-40  15.90±3.32 82.82±0.93 85.19±0.46 85.98±0.47 81.90±0.85 85.86±0.63 86.73±0.48
        cifar100-background-40 8.06±0.76  54.23±1.75 55.22±1.40 53.99±1.62 53.11±1.33 55.75±1.26 59.30±0.60
        """,
    ),
}  # fmt: skip
