"""Concurrency: the same bits whoever calls, however many threads run and whatever else is in the batch."""

import multiprocessing
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from numba import njit

import udtw
from udtw._kernels.cpu import launch, threads, work_queue
from udtw._kernels.cpu.threads import clear_scratch, scratch, share

BIG = {"count": 40, "length": 90}  # 324,000 cells: enough for more than one thread


def problem(count: int, length: int, dtype=torch.float32, seed: int = 0, dim: int = 2) -> list[torch.Tensor]:
    rng = torch.Generator().manual_seed(seed)
    x, y = (torch.randn(count, length, dim, generator=rng, dtype=dtype).cumsum(1) for _ in range(2))
    a, b = (torch.rand(count, length, generator=rng, dtype=dtype) + 0.5 for _ in range(2))
    return [x, y, a, b]


def solve(tensors, **options) -> list[torch.Tensor]:
    """Loss, all gradients and coupling."""
    leaves = [t.clone().requires_grad_() for t in tensors]
    found = udtw.align(*leaves, gamma=0.1, **options)
    grads = torch.autograd.grad(found.loss.sum(), leaves)
    return [found.loss.detach(), *grads, found.coupling.detach()]


def same_bits(one, other) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.fixture
def restore_threads():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def test_32_threads_at_once_give_equal_bits():
    tensors = problem(**BIG)
    expected = solve(tensors)
    start = threading.Barrier(32)

    def call(_):
        start.wait()
        return solve(tensors)

    with ThreadPoolExecutor(32) as pool:
        for found in pool.map(call, range(32)):
            assert same_bits(found, expected)


@pytest.mark.usefixtures("restore_threads")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_number_of_threads_does_not_change_a_bit(dtype):
    tensors = problem(**BIG, dtype=dtype)
    torch.set_num_threads(1)
    expected = solve(tensors)
    for n_threads in (2, 3, 7):
        torch.set_num_threads(n_threads)
        assert same_bits(solve(tensors), expected)


@pytest.mark.parametrize("options", [{}, {"band": 5}])
@pytest.mark.parametrize("length", [7, 20, 90])
@pytest.mark.parametrize("dim", [1, 2])
def test_a_pair_has_the_same_bits_in_any_batch(dim, length, options):
    tensors = problem(37, length, dim=dim)
    whole = solve(tensors, **options)
    for b in (0, 5, 36):
        alone = solve([t[b : b + 1] for t in tensors], **options)
        assert same_bits(alone, [t[b : b + 1] for t in whole])


@pytest.mark.parametrize("dim", [1, 2])
def test_a_pair_has_the_same_bits_beside_shorter_ones(dim):
    tensors = problem(16, 33, dim=dim)
    lengths = torch.arange(18, 34)
    whole = solve(tensors, lengths_x=lengths, lengths_y=lengths.flip(0))
    for b in (0, 5, 15):
        here = slice(b, b + 1)
        alone = solve([t[here] for t in tensors], lengths_x=lengths[here], lengths_y=lengths.flip(0)[here])
        assert same_bits(alone, [t[here] for t in whole])


@pytest.mark.parametrize("dim", [1, 2])
def test_long_sweeps_in_segments_have_the_same_bits(monkeypatch, dim):
    tensors = problem(3, 120, dim=dim)
    expected = solve(tensors)
    monkeypatch.setattr(launch, "TABLE_CELLS", 1)
    assert same_bits(solve(tensors), expected)


def in_child(queue) -> None:
    queue.put([t.numpy() for t in solve(problem(**BIG))])


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # forking a threaded process is what is tested
@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_processes_started_after_use_do_not_hang(method):
    expected = solve(problem(**BIG))
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    child = context.Process(target=in_child, args=(queue,))
    child.start()
    try:
        found = queue.get(timeout=120)
        child.join(timeout=60)
    finally:
        child.kill()  # nothing happens to a child that has ended
    assert child.exitcode == 0
    assert same_bits([torch.from_numpy(a) for a in found], expected)


@njit(nogil=True)
def take_all(queue, end, pack_size, taken, status):
    """What a kernel does: take shares until none is left; here each is noted, and ``status`` returned at once or OK."""
    first, stop = work_queue.begin_work(queue, pack_size, end)
    while first < end:
        taken[first:stop] += 1
        if status != work_queue.OK:
            return work_queue.end_work(queue, end, status)
        first, stop = work_queue.go_on(queue, stop, stop, pack_size, end)
    return work_queue.end_work(queue, end, work_queue.OK)


@pytest.mark.parametrize("helpers", [0, 1, 3])
@pytest.mark.parametrize(
    ("begin", "end", "pack_size"), [(0, 1000, 8), (0, 1001, 16), (30, 57, 4), (5, 6, 16), (7, 7, 1)]
)
def test_every_pair_of_a_queue_is_taken_once(begin, end, pack_size, helpers):
    taken = np.zeros(1024, np.int64)
    queue = share(lambda queue, end: take_all(queue, end, pack_size, taken, work_queue.OK), begin, end, helpers)
    assert (taken == 1).nonzero()[0].tolist() == list(range(begin, end))
    assert taken.sum() == end - begin
    assert queue[work_queue.ACTIVE] == queue[work_queue.BAD] == 0


def test_what_is_left_of_a_share_comes_before_the_next_one():
    @njit
    def next_share(queue, first):
        return work_queue.go_on(queue, first, 5, 16, 100)

    queue = work_queue.new_queue(90)
    assert next_share(queue, 3) == (3, 5)
    assert queue[work_queue.NEXT] == 90
    assert next_share(queue, 5) == (90, 100)
    assert queue[work_queue.NEXT] == 106


def test_after_a_bad_value_nobody_goes_on():
    taken = np.zeros(1000, np.int64)
    queue = share(lambda queue, end: take_all(queue, end, 10, taken, work_queue.BAD_VALUE), 0, 1000, 0)
    assert taken.sum() == 10
    assert queue[work_queue.BAD] == 1
    assert queue[work_queue.ACTIVE] == 0
    assert queue[work_queue.NEXT] >= 1000


def test_a_queue_is_settled_when_nobody_is_at_work():
    queue, bell = work_queue.new_queue(0), work_queue.new_bell()
    assert work_queue.settled(queue, bell, 1)
    queue[work_queue.ACTIVE] = 1
    assert not work_queue.settled(queue, bell, 5)

    def leave():
        time.sleep(0.02)
        queue[work_queue.ACTIVE] = 0

    with ThreadPoolExecutor(1) as pool:
        pool.submit(leave)
        assert work_queue.settled(queue, bell, 2**40)  # looking does not keep others from running


def test_a_kernel_that_begins_rings_for_those_who_wait():
    bell = work_queue.new_bell()
    work_queue.wait_for_bell(bell, 0, 5)  # returns by itself
    waiting = threading.Thread(target=work_queue.wait_for_bell, args=(bell, 0, 2**45))
    waiting.start()
    while bell[work_queue.IDLE] == 0:
        time.sleep(0.001)
    assert waiting.is_alive()
    begin(work_queue.new_queue(0, bell.ctypes.data))
    waiting.join(timeout=60)
    assert not waiting.is_alive()
    assert bell[work_queue.RUNG] == 1
    assert bell[work_queue.IDLE] == 0


@njit
def begin(queue):
    return work_queue.begin_work(queue, 1, 1)


def test_threads_that_stay_awake_miss_no_job():
    rows = np.random.default_rng(0).standard_normal((256, 20))
    x, y = torch.from_numpy(rows), torch.from_numpy(rows[::-1].copy())
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        first = udtw.soft_dtw(x[:, :, None], y[:, :, None])
        for pause in [0.0] * 200 + [1e-4, 1e-3, 5e-3] * 5:  # shorter and longer than a thread stays awake
            time.sleep(pause)
            assert torch.equal(udtw.soft_dtw(x[:, :, None], y[:, :, None]), first)
    finally:
        torch.set_num_threads(before)


def test_two_threads_really_share_and_the_caller_waits_for_the_other(monkeypatch):
    monkeypatch.setattr(threads, "CHECKS", 1)  # so that it sleeps, too
    both, done = threading.Barrier(2, timeout=60), []

    def task(queue, end):
        queue[work_queue.ACTIVE] += 1  # the interpreter's lock makes this safe
        both.wait()  # one thread alone would wait in vain
        if threading.current_thread() is not threading.main_thread():
            time.sleep(0.05)
        done.append(threading.current_thread())
        queue[work_queue.ACTIVE] -= 1

    share(task, 0, 2, 1)
    assert len(set(done)) == 2


@pytest.mark.parametrize("here", [True, False])
def test_what_a_thread_raises_is_raised_by_share(here):
    """Also if the kernel is left in the midst of its work."""
    both = threading.Barrier(2, timeout=60)

    def task(queue, end):
        both.wait()
        if here is (threading.current_thread() is threading.main_thread()):
            queue[work_queue.ACTIVE] += not here
            raise KeyError(end)

    with pytest.raises(KeyError):
        share(task, 0, 2, 1)


def test_a_helper_that_comes_late_does_nothing(monkeypatch):
    jobs, callers = [], []
    monkeypatch.setattr(threads._pool, "submit", lambda job, count: jobs.append((job, count)))

    def task(queue, end):
        callers.append(threading.current_thread())
        take_all(queue, end, 1, np.zeros(2, np.int64), work_queue.OK)

    share(task, 0, 2, 3)
    [(job, count)] = jobs
    assert count == 3
    job()
    assert len(callers) == 1


def test_a_bad_value_that_a_helper_meets_is_reported(monkeypatch):
    """The caller's own share is good: it must hear of the other's."""
    monkeypatch.setattr(launch, "SERIAL_CELLS", 0)
    both = threading.Barrier(2, timeout=60)

    def wait_for_both(task, begin, end, helpers, own=share):
        def together(queue, end):
            both.wait()
            task(queue, end)

        return own(together, begin, end, helpers)

    monkeypatch.setattr(launch, "share", wait_for_both)
    x = np.zeros((64, 30, 1))
    x[-1, 3] = np.nan
    pairs = launch.make_pairs(gamma=np.ones(64), length=np.full((2, 64), 30), x=x, y=np.zeros((64, 30, 1)))
    for _ in range(20):
        with pytest.raises(launch.ValueOutOfRange):
            launch.sums(pairs, [], 2)


def test_no_more_helpers_are_started_than_are_asked_for_or_have_a_core(monkeypatch):
    monkeypatch.setattr(threads, "available_cores", lambda: 4)
    pool = threads._Pool()
    for count, expected in ((1, 1), (1, 1), (2, 2), (9, 3), (1, 3)):
        done = threading.Semaphore(0)
        before = set(threading.enumerate())
        already = pool.size
        pool.submit(done.release, count)
        for _ in range(count):
            assert done.acquire(timeout=60)
        assert pool.size == expected
        assert len(set(threading.enumerate()) - before) == expected - already
    pool.forget()
    assert pool.size == 0


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_scratch_memory_is_kept_grows_and_starts_with_a_cache_line(dtype):
    clear_scratch()
    first = scratch("some", 10, np.dtype(dtype))
    assert first.dtype == dtype
    assert first.size >= 10
    assert not first.any()
    assert first.ctypes.data % 64 == 0
    first[:] = 7
    for size in (1, 10):
        assert scratch("some", size, np.dtype(dtype)) is first
    assert scratch("other", 10, np.dtype(dtype)) is not first
    larger = scratch("some", 1000, np.dtype(dtype))
    assert larger.size >= 1000
    assert scratch("some", 10, np.dtype(dtype)) is larger
    clear_scratch()
    assert not scratch("some", 10, np.dtype(dtype)).any()


def test_every_thread_has_scratch_memory_of_its_own():
    with ThreadPoolExecutor(1) as pool:
        theirs = pool.submit(scratch, "some", 10, np.dtype(np.float64)).result()
    assert not np.shares_memory(theirs, scratch("some", 10, np.dtype(np.float64)))


def test_a_long_compilation_is_told_once(monkeypatch, caplog):
    monkeypatch.setattr(threads, "NOTICE_AFTER", 0.01)
    monkeypatch.setattr(threads, "_told", [])
    for _ in range(2):
        with threads.compiling():
            time.sleep(0.2)
    assert [record.getMessage() for record in caplog.records if record.name == "udtw"] == [threads.NOTICE]
    monkeypatch.setattr(threads, "NOTICE_AFTER", 60.0)
    monkeypatch.setattr(threads, "_told", [])
    with threads.compiling():
        pass
    assert not threads._told
