"""The tables of the weighted distillation paper: best test accuracy in percent, mean ± deviation of three trials."""

from thresher.bench.definition.published import Published, printed

Numbers = dict[tuple[str, str], Published]

# Section 3.1: weights by margin, estimated once by 2,000 validation examples. Figure 7 is VID on CelebA's gender.
ONE_SHOT: Numbers = {
    **printed(
        "Figure 4",
        ["teacher", "debias", "unweighted"],
        """
        svhn-7500  87.31 90.41±0.12 89.89±0.09
        svhn-10000 88.5  91.21±0.09 90.86±0.11
        svhn-12500 88.45 92.4±0.12  91.99±0.1
        svhn-15000 91.38 92.64±0.14 92.51±0.07
        svhn-17500 91.32 92.85±0.1  92.45±0.07
        """,
        score="best",
    ),
    **printed(
        "Figure 5",
        ["teacher", "debias", "unweighted"],
        """
        cifar10-7500  67.17 69.01±0.25 68.27±0.22
        cifar10-10000 71.39 72.96±0.1  72.48±0.26
        cifar10-12500 74.69 75.33±0.43 74.95±0.2
        cifar10-15000 77    77.69±0.35 76.85±0.32
        cifar10-17500 78.46 78.34±0.16 77.92±0.06
        """,
        score="best",
    ),
    **printed(
        "Figure 6",
        ["teacher", "debias", "unweighted"],
        """
        cifar100-7500  44.1  46.81±0.34 46.29±0.04
        cifar100-10000 51.31 53.31±0.66 52.83±0.53
        cifar100-12500 55.54 57.5±0.3   56.89±0.65
        cifar100-15000 59.05 60.94±0.32 60.73±0.03
        cifar100-17500 62.17 62.86±0.41 62.79±0.09
        """,
        score="best",
    ),
    **printed(
        "Figure 7",
        ["teacher", "vid-debias", "debias", "vid", "unweighted"],
        """
        celeba-10000 91.59 94.35±0.11 94.06±0.04 94.11±0.11 93.68±0.01
        celeba-15000 93.76 95.01±0.17 95.14±0.1  94.76±0.14 94.92±0.02
        celeba-20000 94.41 95.73±0.04 95.56±0.03 95.46±0.11 95.38±0.07
        celeba-25000 94.86 95.89±0.08 95.86±0.03 95.69±0.05 95.69±0.05
        celeba-30000 94.92 96.11±0.08 95.92±0.01 95.88±0.03 95.73±0.09
        """,
        score="best",
    ),
    **printed(
        "Figure 8",
        ["teacher", "debias", "unweighted", "debias-hard", "unweighted-hard"],
        """
        imagenet-64058  36.74 38.60±0.07 38.44±0.06 38.56±0.07 38.42±0.06
        imagenet-128116 51.88 53.59±0.09 53.43±0.08 53.34±0.11 53.18±0.07
        """,
        score="best",
    ),
}

# Section 3.3: weights by entropy and 500 validation examples, which the student also learns from; estimated anew every
# epoch on CIFAR-10, once on CIFAR-100.
COMPOSED: Numbers = printed(
    "Figure 10",
    ["teacher", "debias", "fidelity", "composition"],
    """
    cifar10-7500-entropy   67.55 70.59±0.05 69.31±0.41 71.20±0.097
    cifar10-10000-entropy  72.85 74.59±0.07 73.39±0.44 75.54±0.21
    cifar10-12500-entropy  74.85 75.75±0.32 74.69±0.31 76.80±0.29
    cifar10-15000-entropy  77.63 78.56±0.14 77.10±0.16 79.55±0.22
    cifar10-17500-entropy  78.40 79.21±0.17 78.19±0.19 80.28±0.28
    cifar100-7500-entropy  44.70 46.18±0.25 46.32±0.23 46.62±0.44
    cifar100-10000-entropy 51.45 53.15±0.16 52.92±0.20 53.39±0.16
    cifar100-12500-entropy 56.00 57.51±0.4  57.40±0.47 57.11±0.41
    cifar100-15000-entropy 58.70 59.65±0.4  59.48±0.17 59.63±0.15
    cifar100-17500-entropy 61.82 62.02±0.25 61.39±0.09 62.30±0.26
    """,
    score="best",
)

# Appendix B.2: CIFAR-100, 12,500 labelled, 500 validation examples, entropy, estimated once; the teacher has 56.0.
TEMPERATURES: Numbers = printed(
    "Figure 16",
    ["unweighted", "debias"],
    """
    cifar100-temperature-0.01 52.84±0.08 53.73±0.11
    cifar100-temperature-0.1  54.63±0.09 54.84±0.12
    cifar100-temperature-0.5  56.45±0.12 57.01±0.1
    cifar100-temperature-0.8  56.67±0.12 57.60±0.15
    cifar100-temperature-1    57.17±0.15 57.56±0.09
    cifar100-temperature-2    57.54±0.11 57.8±0.21
    cifar100-temperature-3    57.20±0.18 57.09±0.25
    cifar100-temperature-5    56.92±0.11 57.01±0.2
    """,
    score="best",
)
