"""The commands of the bench: `thresher bench` and `thresher sensitivity`."""
