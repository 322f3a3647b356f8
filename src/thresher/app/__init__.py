"""What people run: the command line, and estimators with the interface of scikit-learn."""
