"""Too large a request is an error before anything is allocated."""

import subprocess
import sys

import numpy as np
import pytest
import torch

import udtw
from udtw._io import memory
from udtw.errors import OptionError, SizeError
from udtw.fewshot.comparators import AlignmentComparator
from udtw.fewshot.tokens import Tokens
from udtw.nn import PairSigmaNet
from udtw.timeseries import KNeighborsTimeSeriesClassifier

GIB = 2**30


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A pretended /proc and /sys: call it with files and what they hold."""
    monkeypatch.delenv(memory.VARIABLE, raising=False)
    monkeypatch.setattr(memory, "_PROC", tmp_path / "proc")
    monkeypatch.setattr(memory, "_CGROUP", tmp_path / "cgroup")

    def write(**files):
        for name, text in files.items():
            file = tmp_path / name.replace("__", "/").replace("_of_", ".")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(str(text))

    write(proc__meminfo="MemTotal: 9000 kB\nMemFree: 10 kB\nMemAvailable:    8000 kB\n")
    return write


def test_free_is_what_the_machine_says_is_available(machine):
    assert memory.free_bytes() == 8000 * 1024


def test_a_container_of_version_2_counts_by_its_limit_and_gets_its_file_cache_back(machine):
    machine(
        proc__self__cgroup="0::/pod/me\n",
        cgroup__pod__memory_of_max=5_000_000,
        cgroup__pod__memory_of_current=2_000_000,
        cgroup__pod__memory_of_stat="anon 1\ninactive_file 400\n",
        cgroup__pod__me__memory_of_max="max",
        cgroup__pod__me__memory_of_current=100,
        cgroup__pod__me__memory_of_stat="inactive_file 0\n",
    )
    assert memory.free_bytes() == 3_000_400


def test_a_container_of_version_1_may_see_only_its_own_root(machine):
    machine(
        proc__self__cgroup="5:cpu:/x\n4:memory:/of/the/host\n",
        cgroup__memory__memory_of_limit_in_bytes=900,
        cgroup__memory__memory_of_usage_in_bytes=500,
        cgroup__memory__memory_of_stat="inactive_file 7\ntotal_inactive_file 50\n",
    )
    assert memory.free_bytes() == 450


def test_a_group_above_its_limit_has_nothing_left(machine):
    machine(
        proc__self__cgroup="0::/\n",
        cgroup__memory_of_max=10,
        cgroup__memory_of_current=90,
        cgroup__memory_of_stat="",
    )
    assert memory.free_bytes() == 0


def test_elsewhere_pages_are_counted_and_where_nobody_tells_nothing_is_refused(machine, tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "_PROC", tmp_path / "nowhere")
    sizes = {"SC_PHYS_PAGES": 30, "SC_PAGE_SIZE": 4096}

    def sysconf(name):
        if name not in sizes:
            raise ValueError(name)
        return sizes[name]

    monkeypatch.setattr("os.sysconf", sysconf)
    assert memory.free_bytes() == 30 * 4096  # as on macOS, which does not count what is free
    sizes["SC_AVPHYS_PAGES"] = 20
    assert memory.free_bytes() == 20 * 4096
    sizes.clear()
    assert memory.free_bytes() is None
    memory.refuse_if_too_large(2**80, "Anything", "")


def test_the_environment_has_the_last_word(machine, monkeypatch):
    monkeypatch.setenv(memory.VARIABLE, "0.5")
    assert memory.free_bytes() == GIB // 2
    for text in ("much", "-1", "nan", "inf"):
        monkeypatch.setenv(memory.VARIABLE, text)
        with pytest.raises(OptionError, match="number of GiB"):
            memory.free_bytes()


def test_a_limit_of_the_address_space_counts(machine, monkeypatch):
    resource = pytest.importorskip("resource")
    monkeypatch.setattr(
        resource, "getrlimit", lambda which: (3_000_000, -1) if which == resource.RLIMIT_AS else (-1, -1)
    )
    assert memory.free_bytes() == 8000 * 1024, "where nobody says how much is used"
    machine(proc__self__statm=f"{2_000_000 // resource.getpagesize()} 30 20 1 0 40 0\n")
    assert 1_000_000 <= memory.free_bytes() < 1_000_000 + resource.getpagesize()


LIMITED = """
import resource, numpy as np, torch, udtw
from udtw.errors import SizeError
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 400 * 2**20, -1))
wide, cost = np.zeros((12_000, 2)), torch.zeros(1, 1, 1).expand(1, 12_000, 12_000)
for work in (
    lambda: udtw.align(wide, wide).coupling,
    lambda: udtw.pairwise(wide, metric="euclidean"),
    lambda: udtw.align(wide, wide, backend="portable"),
    lambda: udtw.PathDistribution(cost).mode(),
):
    try:
        work()
    except SizeError as error:
        assert "GiB are free" in str(error)
    else:
        raise AssertionError("not refused")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_below_ulimit_v_a_large_request_is_a_named_error():
    done = subprocess.run([sys.executable, "-c", LIMITED], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


def test_small_requests_never_ask_the_system(monkeypatch):
    monkeypatch.setattr(memory, "free_bytes", lambda: 1 / 0)
    memory.refuse_if_too_large(memory.UNCHECKED_BYTES - 1, "A small thing", "")
    with pytest.raises(ZeroDivisionError):
        memory.refuse_if_too_large(memory.UNCHECKED_BYTES, "A large thing", "")


def test_exactly_what_is_free_may_be_taken(monkeypatch):
    monkeypatch.setattr(memory, "free_bytes", lambda: GIB)
    memory.refuse_if_too_large(GIB, "All of it", "")
    with pytest.raises(SizeError, match=r"^More would take about 1\.0 GiB of memory; 1\.0 GiB are free\. Take less\. "):
        memory.refuse_if_too_large(GIB + 1, "More", "Take less.")


HUGE = torch.zeros(1, 1, 1)
WIDE = torch.zeros(1, 1, 32)


@pytest.mark.parametrize(
    "request_",
    [
        lambda: udtw.align(WIDE.expand(1000, 20_000, 32), WIDE.expand(1000, 20_000, 32)),
        lambda: udtw.align(None, None, cost=HUGE.expand(1000, 20_000, 20_000)),
        lambda: udtw.align(None, None, cost=HUGE.expand(1000, 20_000, 20_000), lengths_x=3),
        lambda: udtw.align(None, None, cost=HUGE.expand(1000, 20_000, 20_000), backend="portable"),
        lambda: udtw.dtw(HUGE.expand(1000, 20_000, 1).clone().requires_grad_(), HUGE.expand(1000, 20_000, 1)),
        lambda: udtw.dtw(None, None, cost=HUGE.expand(1000, 20_000, 20_000), backend="portable"),
        lambda: udtw.PathDistribution(HUGE.expand(1000, 20_000, 20_000)).coupling,
        lambda: udtw.PathDistribution(HUGE.expand(1000, 20_000, 20_000)).mode(),
        lambda: udtw.PathDistribution(HUGE.expand(1000, 20_000, 20_000)).sample(1),
        lambda: udtw.PathDistribution(HUGE.expand(1000, 20_000, 20_000)).expect(HUGE.expand(1000, 20_000, 20_000)),
        lambda: PairSigmaNet(1)(HUGE.expand(1000, 20_000, 1), HUGE.expand(1000, 20_000, 1)),
        lambda: AlignmentComparator("udtw")(
            *[Tokens(WIDE.expand(4000, 900, 32), torch.full((4000,), 900)) for _ in range(2)]
        ),
    ],
    ids=["features", "cost", "lengths", "portable", "dtw", "portable dtw", "coupling", "mode", "sample", "expect",
         "pair network", "tokens"],
)  # fmt: skip
def test_a_huge_request_is_refused_at_once(request_):
    with pytest.raises(SizeError, match=r"would take about [\d,]+\.\d GiB of memory; .* are free\. \w+ ") as refusal:
        request_()
    assert "20,000 × 20,000" in str(refusal.value) or "900 tokens" in str(refusal.value)


def test_a_huge_matrix_of_an_alignment_is_refused_although_its_distance_is_not(monkeypatch):
    x = torch.zeros(40, 3000, 1)
    found = udtw.align(x, x, 1.0, 1.0, lengths_x=2, lengths_y=2)
    monkeypatch.setattr(memory, "free_bytes", lambda: GIB)
    assert found.distance.shape == (40,)
    for name in ("coupling", "cost", "variance"):
        with pytest.raises(SizeError, match=r"40 pair.s. of 3,000 × 3,000 steps"):
            getattr(found, name)


def test_a_search_that_does_not_fit_is_refused(monkeypatch):
    series = np.zeros((3000, 2))
    search = KNeighborsTimeSeriesClassifier(metric="dtw").fit(series, np.arange(3000) % 2)
    monkeypatch.setattr(memory, "free_bytes", lambda: GIB // 4)
    with pytest.raises(SizeError, match="Searching 3,000 series for the neighbors of 3,000"):
        search.predict(series)
