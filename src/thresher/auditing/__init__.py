"""The audit of a data set: which targets look wrong, by judges that did not see them."""

from thresher.auditing.audit import audit

__all__ = ["audit"]
