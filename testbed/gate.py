"""The fidelity gate before the arms: does every link carry, delay, lose and reorder what it is set to?

Rates are measured with all links loaded at once (where they have delays, one direction after the other), at the highest
rate that the trace gives each, and without the loss, jitter and reordering that would hold back TCP itself; times and
losses of single packets while the links are idle.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from testbed.bed import Testbed
from testbed.edgefidelity import judge_edges
from testbed.experiment import Experiment
from testbed.fidelity import Goodput, Verdict, judge_links, verdict_of
from testbed.measure import carried, pinned_to_edges
from testbed.measure_edges import probe_edges

LOADED_S = 3.0
"""How long every link is loaded."""


def gate(bed: Testbed, experiment: Experiment, once_probed: Callable[[], None] = lambda: None) -> Verdict:
    """Measure and judge; takes about 10 s. The testbed is left as it was measured: reset it.

    `once_probed` is called when single packets have been measured, for which the machine should have been at rest.
    """
    bed.reset()
    peaks = experiment.peak_rates_bps()
    loaded = {
        edge: replace(bed.wan.edges[edge], rate_bps=rate_bps, jitter_s=0.0, loss=0.0, reorder=0.0)
        for edge, rate_bps in peaks.items()
    }
    with pinned_to_edges(bed):
        edges = judge_edges(probe_edges(bed), bed.wan.links, experiment.tolerance)
        once_probed()
        bed.shape_many(loaded)
        measured = carried(bed, LOADED_S)
    goodputs = [Goodput(edge, each.rate_bps, each.delivered_bps) for edge, each in measured.items()]
    links = judge_links(goodputs, experiment.tolerance)
    return verdict_of([*links.reasons, *edges.reasons], links.figures | edges.figures)
