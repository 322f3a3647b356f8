"""Several processes train one run: which of them this is, what they tell each other, and who sees which examples."""
