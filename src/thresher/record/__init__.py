"""What a run writes: the ledger, what is derived from it, and the names of all files."""
