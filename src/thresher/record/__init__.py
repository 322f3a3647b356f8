"""What a run leaves behind: the ledger, what people read of it, and the names of its files."""
