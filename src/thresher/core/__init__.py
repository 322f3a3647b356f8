"""The words everything is written in: examples, evidence, signals, rules, objectives, recipes."""
