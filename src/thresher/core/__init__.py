"""The types that everything else uses: examples, evidence, signals, rules, objectives, recipes."""
