"""Selections by geometry: pure functions on embeddings, each with the rule that calls it."""
