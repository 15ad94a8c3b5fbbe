"""What the tests on loopback share."""

from collections.abc import Callable

from workers.job import Job

DCS = ("amsterdam", "são paulo", "tokyo", "iowa")

MakeJob = Callable[..., Job]
"""`make(**fields)`: a job of four ranks on loopback, with these fields."""
