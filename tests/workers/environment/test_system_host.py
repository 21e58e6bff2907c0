"""The randomness of a process: drawn in advance, given out once."""

import multiprocessing
import threading

from workers.environment.system_host import system_host


def draw(drawn, count, size):
    host = system_host()
    drawn.extend(host.random_bytes(size) for _ in range(count))


def test_nothing_is_given_out_twice_not_even_to_two_threads():
    drawn: list[bytes] = []
    threads = [threading.Thread(target=draw, args=(drawn, 2_000, 10)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {len(content) for content in drawn} == {10}
    assert len(set(drawn)) == 8_000


def test_as_much_as_is_asked_for_is_given():
    random_bytes = system_host().random_bytes
    assert [len(random_bytes(size)) for size in (0, 1, 4095, 4096, 4097, 100_000, 3)] == [
        *(0, 1, 4095, 4096, 4097, 100_000, 3)
    ]


def give(queue):
    queue.put(system_host().random_bytes(16))


def test_a_forked_child_does_not_repeat_what_its_parent_goes_on_to_give_out():
    host = system_host()
    host.random_bytes(1)
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    children = [context.Process(target=give, args=(queue,)) for _ in range(2)]
    for child in children:
        child.start()
    drawn = {queue.get(timeout=20) for _ in children} | {host.random_bytes(16)}
    for child in children:
        child.join()
    assert len(drawn) == 3
