"""The exact kernel's clock as the host sees it, and what is said when it stands still."""

import re
import stat
import struct

from testbed.kernels import exactkernel
from testbed.kernels.virtualclock import LAYOUT, MAGIC, Reading, SpinWatch, VirtualClock


def reading(time_s, command="python3", pid=7, syscall=202):
    return Reading(time_s, 1000, syscall, pid, command)


def test_a_clock_that_no_kernel_has_written_says_nothing(tmp_path):
    clock = VirtualClock(tmp_path / "clock")

    assert clock.read() is None
    assert stat.S_IMODE((tmp_path / "clock").stat().st_mode) == 0o600


def test_a_clock_is_read_as_the_kernel_writes_it(tmp_path):
    clock = VirtualClock(tmp_path / "clock")
    page = struct.pack("<QQQiI16s", MAGIC, 12_345_678_900, 42, 24, 17, b"ovs-vswitchd")

    (tmp_path / "clock").write_bytes(page.ljust(4096, b"\0"))

    assert clock.read() == Reading(12.3456789, 42, 24, 17, "ovs-vswitchd")


def test_the_patch_lays_the_page_out_as_it_is_read_here():
    sizes = {"u64": 8, "s32": 4, "u32": 4, "char": 16}
    (struct_text,) = re.findall(r"struct time_travel_page \{\n(.*?)\n\+\};", exactkernel.PATCH.read_text(), re.DOTALL)
    fields = re.findall(r"^\+\t(u64|s32|u32|char) (\w+)", struct_text, re.MULTILINE)

    assert [name for _, name in fields] == ["magic", "time_ns", "syscalls", "syscall", "pid", "comm"]
    assert sum(sizes[kind] for kind, _ in fields) == LAYOUT.size
    assert f"#define TIME_TRAVEL_PAGE_MAGIC {MAGIC:#x}ULL" in exactkernel.PATCH.read_text()


def test_a_clock_that_moves_now_and_then_is_no_spin():
    watch = SpinWatch(still_s=60)

    said = [watch.look(wall_s, reading(wall_s // 50)) for wall_s in range(200)]

    assert said == [None] * 200


def test_a_clock_that_stands_still_is_told_with_who_holds_it_up():
    watch = SpinWatch(still_s=60)

    said = [watch.look(100 + wall_s, reading(3.25)) for wall_s in range(61)]

    assert said[:60] == [None] * 60
    assert "stood still at 3.250000 s for 60 s of wall time" in said[60]
    assert "python3 (pid 7 inside), last system call futex" in said[60]


def test_of_several_who_hold_it_up_the_most_frequent_comes_first():
    watch = SpinWatch(still_s=10)
    for wall_s in range(10):
        watch.look(wall_s, reading(3.25, "rare", 1, 999) if wall_s == 4 else reading(3.25, "often", 2, 24))

    said = watch.look(10, reading(3.25, "often", 2, 24))

    assert said.index("often (pid 2 inside), last system call sched_yield") < said.index(
        "rare (pid 1 inside), last system call number 999"
    )
