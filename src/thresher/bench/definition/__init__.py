"""What a suite is made of: cells, methods, setups, and the numbers that papers print."""
