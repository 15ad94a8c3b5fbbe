"""A program for the inside of a user-mode kernel: shapes a link with netem while packets flow, and says what it saw."""

import json
import re
import subprocess
import sys
from dataclasses import asdict

from testbed.bed import Testbed
from testbed.emulation.capabilities import detect
from testbed.measure import goodput, route_neighbors
from testbed.measure_edges import probe_edges
from topologies import EdgeProperties, Link, Site, Wan

FIRST = EdgeProperties(40e6, delay_s=0.005)
THERE, BACK = ("a", "b"), ("b", "a")


def round_trips_ms(bed, count=10, every_s=0.1):
    said = bed.dc("a").run(["ping", "-n", "-c", str(count), "-i", str(every_s), bed.dc("b").ip]).stdout
    return [float(found) for found in re.findall(r"time=([\d.]+) ms", said)]


def main():
    found = {"capabilities": asdict(detect())}
    wan = Wan("pair", (Site("a"), Site("b")), (Link("a", "b", FIRST, FIRST),))
    with Testbed(wan, controller=None) as bed:
        route_neighbors(bed)
        round_trips_ms(bed, 2)
        # while pings are under way, both directions change apart, with the rate
        ping = bed.dc("a").popen(["ping", "-n", "-q", "-c", "60", "-i", "0.02", bed.dc("b").ip], stdout=subprocess.PIPE)
        for step in range(20):
            bed.shape("a-b", delay_s=0.005 + step / 2000, rate_bps=20e6 + step * 1e6, direction=THERE)
            bed.shape("a-b", delay_s=0.005 + step / 4000, direction=BACK)
        found["pings"] = ping.communicate(timeout=30)[0].decode()
        found["changed"] = {" ".join(status.edge): asdict(status.properties) for status in bed.links()}
        found["round_trips_ms"] = round_trips_ms(bed)
        bed.shape("a-b", delay_s=0.03, loss=0.2, rate_bps=40e6, direction=THERE)
        bed.shape("a-b", delay_s=0.03, reorder=0.3, rate_bps=40e6, direction=BACK)
        found["probes"] = {" ".join(edge): asdict(probe) for edge, probe in probe_edges(bed, packets=300).items()}
        bed.reset()
        found["rates"] = {" ".join(edge): measured.ratio for edge, measured in goodput(bed, [THERE], 2.0).items()}
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
