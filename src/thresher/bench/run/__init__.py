"""Jobs, the processes that run them, and the file in which results are stored."""
