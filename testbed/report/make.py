"""Makes everything that a report is, again and again, from the JSON lines of a run folder alone."""

from __future__ import annotations

from pathlib import Path

from testbed.report.damage import damage_told
from testbed.report.records import read_runs
from testbed.report.summary import Summary, summarize
from testbed.runfolder import SUMMARY_JSON, SUMMARY_TEXT, open_run


def make_report(path: Path) -> Summary:
    """Write `summary.json`, `summary.txt` and the pictures of a run, finished or not; earlier ones are replaced.

    InputError if `path` is no run folder, RingroadError if it cannot be read or written.
    """
    from testbed.report.plots import draw
    from testbed.report.table import summary_text

    folder = open_run(path)
    with damage_told(path):
        runs = read_runs(folder)
        summary = summarize(folder, runs)
        pictures = draw(folder, runs, summary)
    folder.write_json(SUMMARY_JSON, summary)
    folder.write_bytes(SUMMARY_TEXT, summary_text(summary).encode())
    for name, picture in pictures.items():
        folder.write_bytes(name, picture)
    return summary
