"""Messages between a user-mode kernel and the machine: whole, however they arrive."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.kernels.channel import Job, Lines, encode, job_from_text


def test_messages_are_put_together_from_pieces_and_noise_is_left_out():
    lines = Lines()
    whole = b"kernel noise\r\n" + encode("up", now=1.5) + b'[1, 2]\n{"no": "event"}\n' + encode("exit", status=7)
    found = [message for cut in range(len(whole)) for message in lines.messages(whole[cut : cut + 1])]
    assert found == [{"event": "up", "now": 1.5}, {"event": "exit", "status": 7}]


def test_a_message_that_no_serial_line_takes_whole_is_refused():
    with pytest.raises(ValueError, match="does not fit"):
        encode("progress", value="x" * 4000)


@given(st.text(), st.dictionaries(st.text(), st.text()), st.lists(st.text()))
def test_a_job_comes_out_as_it_went_in(folder, environment, command):
    job = Job(tuple(command), folder, environment, ("/a b",), "uml", "6.1", "why", False, None, "k3f9")
    assert job_from_text(job.encode()) == job
