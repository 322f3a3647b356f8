"""What `thresher export` writes as load.py, one file a kind of inputs: plain PyTorch, without Thresher."""
