"""The audit of a data set: which targets look wrong, by judges that did not see them."""

from thresher.auditing.audit import EPOCHS, FINAL, audit, rate_to_assume

__all__ = ["EPOCHS", "FINAL", "audit", "rate_to_assume"]
