"""`ringroad doctor`: what this machine can and cannot do, each with the fix."""

from __future__ import annotations

import typer

from testbed.commands.options import AsJson

MARKS = {"good": "ok ", "limited": "-- ", "bad": "BAD"}


def doctor(as_json: AsJson = False) -> None:
    """Say what this machine can and cannot do, each with the fix. Exit code 1 if runs are not possible.

    \b
    Examples:
      ringroad doctor
      ringroad doctor --json
    """
    from dataclasses import asdict

    from testbed.doctor import examine
    from testbed.runfolder import encode

    findings = examine()
    possible = all(finding.status != "bad" for finding in findings)
    if as_json:
        typer.echo(encode({"possible": possible, "findings": [asdict(finding) for finding in findings]}, indent=2))
    else:
        for finding in findings:
            typer.echo(f"{MARKS[finding.status]}  {finding.name}: {finding.found}")
            if finding.remedy:
                typer.echo(f"       remedy: {finding.remedy}")
        typer.echo("runs are possible on this machine" if possible else "no run is possible before BAD is repaired")
    raise typer.Exit(0 if possible else 1)
