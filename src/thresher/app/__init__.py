"""What people run: the command line, and estimators with the interface of scikit-learn."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from thresher.app.estimator import ThresherClassifier, ThresherRegressor

__all__ = ["ThresherClassifier", "ThresherRegressor"]


def __getattr__(name: str) -> Any:
    """The estimators, imported when first asked for, so that the command line starts without scikit-learn."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from thresher.app import estimator

    return getattr(estimator, name)
