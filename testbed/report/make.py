"""Makes everything that a report is, again and again, from the JSON lines of a run folder alone."""

from __future__ import annotations

from pathlib import Path

from testbed.report.records import read_runs
from testbed.report.summary import Summary, summarize
from testbed.runfolder import SUMMARY_JSON, SUMMARY_TEXT, open_run
from topologies.errors import RingroadError


def make_report(path: Path) -> Summary:
    """Write `summary.json`, `summary.txt` and the pictures of a run, finished or not; earlier ones are replaced.

    InputError if `path` is no run folder, RingroadError if it cannot be read or written.
    """
    from testbed.report.plots import draw
    from testbed.report.table import summary_text

    folder = open_run(path)
    try:
        runs = read_runs(folder)
        summary = summarize(folder, runs)
        pictures = draw(folder, runs, summary)
    except (LookupError, TypeError, ValueError, AttributeError, OSError) as error:
        message = f"{path} is damaged: something in its files is not what a run writes ({error!r})"
        raise RingroadError(message, "restore the folder, or run again") from error
    folder.write_json(SUMMARY_JSON, summary)
    folder.write_bytes(SUMMARY_TEXT, summary_text(summary).encode())
    for name, picture in pictures.items():
        folder.write_bytes(name, picture)
    return summary
