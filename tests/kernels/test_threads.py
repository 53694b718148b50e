"""Concurrency: the same bits whoever calls, however many threads run and whatever else is in the batch."""

import multiprocessing
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

import udtw
from udtw.kernels import cpu, threads
from udtw.kernels.threads import clear_scratch, parallel_for, scratch

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
    monkeypatch.setattr(cpu, "TABLE_CELLS", 1)
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


def test_parallel_for_covers_every_item_once():
    hits = np.zeros(1000, int)

    def task(begin, end):
        hits[begin:end] += 1

    parallel_for(task, 1000, 7, 5)
    assert (hits == 1).all()


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize(("count", "grain"), [(20, 7), (21, 7), (3, 7), (1, 1), (0, 7)])
def test_parallel_for_cuts_pieces_of_one_size_and_what_is_left(n_threads, count, grain):
    pieces = []
    parallel_for(lambda begin, end: pieces.append((begin, end)), count, grain, n_threads)
    assert sorted(pieces) == [(begin, min(begin + grain, count)) for begin in range(0, count, grain)]


def test_parallel_for_raises_what_a_task_raised():
    def task(begin, end):
        if begin >= 50:
            raise KeyError(begin)

    with pytest.raises(KeyError):
        parallel_for(task, 100, 10, 4)


def test_parallel_for_really_runs_on_two_threads():
    both = threading.Barrier(2, timeout=60)
    parallel_for(lambda begin, end: both.wait(), 2, 1, 2)  # one thread alone would wait in vain


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
