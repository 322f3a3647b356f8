"""One or several run folders become one self-contained HTML page that needs no network."""

from thresher.report.page import check_installed, filled_in, write_loop_report, write_report

__all__ = ["check_installed", "filled_in", "write_loop_report", "write_report"]
