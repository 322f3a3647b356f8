"""The bench: suites of comparisons as data, a runner that stores every result, and tables made from what is stored."""
