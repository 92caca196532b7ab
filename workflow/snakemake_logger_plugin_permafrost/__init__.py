"""Permafrost's view of a run as a logger plugin of Snakemake.

``profiles/default`` names it; ``--logger permafrost`` does so for any workflow, if the package is installed.
"""

from __future__ import annotations

from logging import LogRecord

from snakemake_interface_logger_plugins.base import LogHandlerBase


class LogHandler(LogHandlerBase):
    """Shows stages and what failed; leaves the terminal to Snakemake if ``--verbose`` or the like is given."""

    def __post_init__(self) -> None:
        # Snakemake imports every plugin that it finds, also for commands that show nothing
        from permafrost.operate.progress.view import make_view

        self.view = make_view(self.common_settings)

    def emit(self, record: LogRecord) -> None:
        """Show an event, or nothing where it cannot be shown: no run ends for that."""
        try:
            if self.view is not None:
                self.view.show(record)
        except OSError:
            # the terminal's file is full or closed, so there is no place for a message either
            return
        except Exception:
            self.handleError(record)

    def close(self) -> None:
        """Leave the terminal as it was."""
        if self.view is not None:
            self.view.end()
        super().close()

    @property
    def writes_to_stream(self) -> bool:
        """Whether it takes the terminal; else Snakemake uses it itself."""
        return self.view is not None

    @property
    def writes_to_file(self) -> bool:
        """Snakemake's own log file stays as it is."""
        return False

    @property
    def has_filter(self) -> bool:
        """Snakemake's filter serves."""
        return False

    @property
    def has_formatter(self) -> bool:
        """It formats by itself."""
        return True

    @property
    def needs_rulegraph(self) -> bool:
        """It draws none."""
        return False
