"""Reports as tests ask for them."""

from __future__ import annotations

from permafrost.report.page import Report


def build_report(*, output_dir, **inputs) -> None:
    """Write the report of these inputs (`Report`) into a folder."""
    Report(**inputs).write(output_dir)
