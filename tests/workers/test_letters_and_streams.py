"""Messages straight between two ranks, over socket pairs: order, size, haste, ends; no process group, no network."""

from __future__ import annotations

import gc
import itertools
import socket
import threading
import weakref
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
import torch
from waiting import eventually

from workers.backend.letters import LETTER_BYTES, Letters
from workers.backend.streams import Streams
from workers.backend.written import memory_of

LONG, SHORT = timedelta(seconds=60), timedelta(seconds=0.2)
LARGE = 8 * 2**20
"""More than a kernel keeps for who does not read."""

Pair = tuple[Letters, Letters] | tuple[Streams, Streams]


@pytest.fixture
def connection() -> Iterator[tuple[socket.socket, socket.socket]]:
    here, there = socket.socketpair()
    with here, there:
        yield here, there


def _letters(connection: tuple[socket.socket, socket.socket], timeout: timedelta = LONG) -> tuple[Letters, Letters]:
    here, there = connection
    return Letters({1: here}, timeout), Letters({0: there}, timeout)


def _streams(connection: tuple[socket.socket, socket.socket], timeout: timedelta = LONG) -> tuple[Streams, Streams]:
    here, there = connection
    return Streams({1: here}, timeout), Streams({0: there}, timeout)


def _room(size: int) -> memoryview:
    return memoryview(bytearray(size))


def _write(letters: Letters, text: bytes) -> Callable[[], object]:
    return letters.send(memoryview(text), 1, letters.reserve(1), 0)


def _in_thread(wait: Callable[[], object]) -> tuple[threading.Thread, list[BaseException | None]]:
    ended: list[BaseException | None] = []

    def run() -> None:
        try:
            wait()
        except RuntimeError as error:
            ended.append(error)
        else:
            ended.append(None)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread, ended


def _threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "ring backend: moves"]


def test_letters_are_opened_in_any_order_whenever_they_were_sent(connection):
    sender, receiver = _letters(connection)
    numbers = [sender.reserve(1) for _ in range(4)]
    places = [_room(1) for _ in range(4)]
    letters = [receiver.receive(place, 0, 0) for place in places]

    for which in (2, 0, 3, 1):
        sender.send(memoryview(bytes([which])), 1, numbers[which], 0)
    for which in (3, 1, 0, 2):
        letters[which]()

    assert [place[0] for place in places] == [0, 1, 2, 3]


def test_who_waits_for_a_later_letter_does_not_hold_up_who_waits_for_an_earlier_one(connection):
    sender, receiver = _letters(connection)
    first, second = receiver.receive(_room(1), 0, 0), receiver.receive(_room(1), 0, 0)
    later, later_ended = _in_thread(second)
    eventually(lambda: receiver._in[0]._is_read)
    earlier, _ = _in_thread(first)

    _write(sender, b"1")
    earlier.join(60)

    assert not earlier.is_alive() and not later_ended
    _write(sender, b"2")
    later.join(60)
    assert later_ended == [None]


def test_a_letter_of_another_size_is_an_error_and_harms_no_other(connection):
    sender, receiver = _letters(connection)
    wrong, right = receiver.receive(_room(3), 0, 0), receiver.receive(place := _room(2), 0, 0)
    _write(sender, b"ab")
    _write(sender, b"cd")

    with pytest.raises(RuntimeError, match="rank 0 has sent another size than the 3 bytes expected here"):
        wrong()
    right()

    assert bytes(place) == b"cd"


def test_nobody_blocks_who_sends_more_than_is_read_and_all_of_it_comes(connection):
    sender, receiver = _letters(connection)
    texts = [bytes([number]) * (LETTER_BYTES - number) for number in range(200)]
    rests = [_write(sender, text) for text in texts]
    last, ended = _in_thread(rests[-1])
    assert last.is_alive() and not ended  # it has not left: so much no kernel keeps

    places = [_room(len(text)) for text in texts]
    for place in places:
        receiver.receive(place, 0, 0)()

    for rest in rests:
        rest()
    assert [bytes(place) for place in places] == texts


def test_small_letters_do_not_overtake_the_rest_of_a_large_one(connection):
    sender, receiver = _letters(connection)
    sizes = [LETTER_BYTES if number % 3 else 1 for number in range(60)]
    writing, _ = _in_thread(lambda: [rest() for rest in [_write(sender, bytes([s % 256]) * s) for s in sizes]])

    for size in sizes:
        receiver.receive(place := _room(size), 0, 0)()
        assert set(bytes(place)) == {size % 256}

    writing.join(60)
    assert not writing.is_alive()


@pytest.mark.parametrize("make", [_letters, _streams])
def test_who_waits_longer_than_the_timeout_is_told(connection, make: Callable[..., Pair]):
    _, receiver = make(connection, SHORT)

    with pytest.raises(RuntimeError, match="timed out"):
        receiver.receive(_room(10), 0, 0)()


@pytest.mark.parametrize("make", [_letters, _streams])
@pytest.mark.parametrize("end", ["break_off here", "break_off there", "close"])
def test_an_end_of_the_connection_ends_who_waits_and_who_comes_later(connection, make: Callable[..., Pair], end: str):
    sender, receiver = make(connection)
    waiting, ended = _in_thread(receiver.receive(_room(10), 0, 0))
    if end == "close":
        connection[0].close()
    else:
        (receiver if end == "break_off here" else sender).break_off()
    waiting.join(60)

    assert isinstance(ended[0], RuntimeError) and "rank 0" in str(ended[0])
    with pytest.raises(RuntimeError, match="rank 0"):
        receiver.receive(_room(10), 0, 0)()


@pytest.mark.parametrize("make", [_letters, _streams])
def test_who_sends_to_one_that_is_gone_is_told(connection, make: Callable[..., Pair]):
    sender, _ = make(connection)
    connection[1].close()

    def send() -> None:
        text = _room(1000)
        for _ in range(1000):
            number = (sender.reserve(1),) if isinstance(sender, Letters) else ()
            rest = sender.send(text, 1, *number, 0)
            rest()

    with pytest.raises(RuntimeError, match="the connection to rank 1 is broken"):
        send()


def test_streams_carry_large_messages_both_ways_at_once_in_their_order(connection):
    here, there = _streams(connection)
    sizes = [LARGE, 1, 70_000, LARGE]
    places = {(side, number): _room(size) for side in (0, 1) for number, size in enumerate(sizes)}
    rests = []
    for number, size in enumerate(sizes):
        rests += [
            here.send(memoryview(bytes([number]) * size), 1, number),
            there.send(memoryview(bytes([9]) * size), 0, number),
        ]
    for number, _ in enumerate(sizes):
        rests += [here.receive(places[0, number], 1, number), there.receive(places[1, number], 0, number)]

    for rest in rests:
        rest()

    for number, size in enumerate(sizes):
        assert bytes(places[0, number]) == bytes([9]) * size
        assert bytes(places[1, number]) == bytes([number]) * size


def test_a_message_of_another_size_ends_the_stream(connection):
    sender, receiver = _streams(connection)
    rests = [receiver.receive(_room(size), 0, 0) for size in (5, 4)]
    sender.send(memoryview(b"abcd"), 1, 0)
    sender.send(memoryview(b"efgh"), 1, 0)

    for rest in rests:
        with pytest.raises(RuntimeError, match="rank 0 has sent another size than the 5 bytes expected here"):
            rest()


@pytest.mark.parametrize("make", [_letters, _streams])
def test_a_message_of_another_collective_is_no_result(connection, make: Callable[..., Pair]):
    sender, receiver = make(connection)
    number = (sender.reserve(1),) if isinstance(sender, Letters) else ()
    sender.send(memoryview(b"abcd"), 1, *number, 7)

    with pytest.raises(
        RuntimeError, match=r"rank 0 has sent what belongs to another collective: its number 7, here .* 8"
    ):
        receiver.receive(_room(4), 0, 8)()


def test_what_failed_holds_on_to_nobody(connection):
    class Owner:
        def __init__(self, streams: Streams) -> None:
            self.streams = streams

        def wait(self) -> None:
            with pytest.raises(RuntimeError, match="rank 0 has closed its connection"):
                self.streams.receive(_room(4), 0, 0)()

    gc.collect()
    eventually(lambda: not _threads())  # those of other tests
    connection[0].close()
    owner = Owner(Streams({0: connection[1]}, LONG))
    owner.wait()
    kept = weakref.ref(owner)
    del owner
    gc.collect()

    eventually(lambda: kept() is None and not _threads())


def test_threads_and_connections_end_with_their_owner():
    gc.collect()
    eventually(lambda: not _threads())  # those of other tests
    peers = socket.socketpair()
    here, there = _streams(peers)
    rests = [here.send(_room(LARGE), 1, 0), there.receive(_room(LARGE), 0, 0)]
    for rest in rests:
        rest()
    assert len(_threads()) == 2
    ends = [weakref.ref(peer) for peer in peers]

    del here, there, rests, rest, peers
    gc.collect()

    eventually(lambda: not _threads() and all(end() is None for end in ends))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.bool, torch.int64, torch.complex64])
def test_the_memory_of_a_tensor_is_its_own_and_keeps_it(dtype: torch.dtype):
    tensor = torch.zeros((2, 3), dtype=dtype)
    memory = memory_of(tensor)
    memory[: tensor.element_size()] = memory_of(torch.ones(1, dtype=dtype))
    assert tensor.flatten().tolist() == [1, 0, 0, 0, 0, 0]
    assert len(memory) == tensor.nbytes and len(memory_of(tensor[:0])) == 0

    kept = weakref.ref(memory.obj.tensor)
    del tensor
    assert kept() is not None
    del memory
    gc.collect()
    assert kept() is None


def test_memory_that_is_not_the_processors_is_refused():
    with pytest.raises(ValueError, match="a tensor on meta"):
        memory_of(torch.empty(3, device="meta"))


def test_all_numbers_are_in_order_for_each_rank():
    pairs = [socket.socketpair() for _ in range(2)]
    letters = Letters({rank: pair[0] for rank, pair in enumerate(pairs)}, LONG)
    assert [letters.reserve(rank) for rank in (0, 1, 0, 1, 1)] == [0, 0, 1, 1, 2]
    for end in itertools.chain(*pairs):
        end.close()
