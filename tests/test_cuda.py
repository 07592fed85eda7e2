import contextlib
import ctypes
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from loaderproof.loaders import Description, Request
from loaderproof.loaders.function import FunctionAdapter
from loaderproof.suite.conformance import test_cuda as rules
from loaderproof.suite.experiments import cuda
from loaderproof.suite.experiments.workbench import Endless, Workbench
from loaderproof.suite.judged import Judged, NotKept
from loaderproof.suite.observation import Epoch, Observation, Scenario
from loaderproof.suite.session import Case

sys.path.insert(0, str(Path(__file__).parent / "broken_loaders"))
import honest
import on_cuda

sys.path.pop(0)

SCENARIO = Scenario("probe:20:12x20x3", Request(batch_size=4), 1)
on_a_device = pytest.mark.skipif(not torch.cuda.is_available(), reason="it takes a CUDA device")


class Gpu:
    """A device that copies when it is waited for: as direct memory access does, with no hold on the tensor.

    Attributes:
        held: which streams do nothing until then.
    """

    latest = None

    def __init__(self):
        self.held, self.queue = set(), []
        Gpu.latest = self

    def consuming(self):
        return contextlib.nullcontext()

    def hold_consumer(self, seconds):
        assert seconds > 0
        self.held.add("consumer")

    def hold_others(self, seconds):
        assert seconds > 0
        self.held.add("others")

    def copy(self, tensor):
        made = torch.empty_like(tensor)
        read = self.reading(tensor)
        if "consumer" in self.held:
            self.queue.append(lambda: made.copy_(read()))
        else:
            made.copy_(read())
        return made

    def reading(self, tensor):
        """Return what reads a tensor's memory, wherever the tensor has gone."""
        address, size, shape, dtype = tensor.data_ptr(), tensor.nbytes, tensor.shape, tensor.dtype
        return lambda: torch.frombuffer(bytearray(ctypes.string_at(address, size)), dtype=dtype).reshape(
            shape
        )

    def wait(self):
        for copy in self.queue:
            copy()
        self.queue.clear()
        self.held.clear()

    def allocated(self):
        return 0


class Keeping(Gpu):
    """The same, for memory that its allocator keeps until it has been read, as torch's own does."""

    def reading(self, tensor):
        return tensor.clone


@pytest.fixture
def gpu(monkeypatch):
    """Put a device without hardware in the place of the real one."""

    def put(kind):
        monkeypatch.setattr(cuda, "Gpu", kind)

    return put


@pytest.fixture
def bench():
    """Return the workbench of a loader, which is closed at the end."""
    with contextlib.ExitStack() as stack:

        def made(make):
            new = Workbench("any", FunctionAdapter(make))
            stack.callback(new.close)
            return new

        yield made


def order_of(seen):
    """Return the places in the source of what came."""
    return seen.epochs[0].index.tolist()


def test_copies_of_a_right_loader_arrive(gpu, bench):
    """Copies that are made after the last batch hold every sample, if memory is kept until it was read."""
    gpu(Keeping)

    seen, lying = cuda.consumed_late(bench(honest.Honest), SCENARIO)

    assert list(range(20)) == order_of(seen)
    assert cuda.PAGEABLE == lying


def test_memory_used_again_too_early_is_seen(gpu, bench):
    """Where a pool takes memory back while a copy is queued, an earlier batch arrives as a later one."""
    gpu(Gpu)

    seen, _ = cuda.consumed_late(bench(on_cuda.ReusedWhileCopied), SCENARIO)

    # The pool needed memory for one batch.
    assert [*range(16, 20)] * 5 == order_of(seen)


def test_no_batch_is_held_while_the_next_is_made(gpu, bench):
    """The consumer has let go of a batch when it asks for the next one, so a pool has all its memory then."""
    gpu(Gpu)
    free = []

    class Counted(on_cuda.Pooled):
        def read_by_now(self):
            return None

        def taken(self, shape):
            free.append(len(self.pool))
            return super().taken(shape)

    cuda.consumed_late(bench(Counted), SCENARIO)

    # Two passes of five batches, all in one memory.
    assert [0, *[1] * 9] == free


def test_batches_are_read_while_other_streams_are_held(gpu, bench):
    """At once means: while everything else on the device stands still."""
    gpu(Keeping)
    held = []

    class Late(honest.Honest):
        """Fills its batches on another stream, which makes nobody wait for it."""

        def batch(self, places):
            images, labels = super().batch(places)
            held.append(set(Gpu.latest.held))
            if "others" not in Gpu.latest.held:
                return images, labels
            empty = torch.zeros_like(images)
            Gpu.latest.queue.append(lambda: empty.copy_(images))
            return empty, labels

    seen, _ = cuda.consumed_at_once(bench(Late), SCENARIO)

    assert [set()] * 5 + [{"others"}] * 5 == held
    assert [-1] * 20 == order_of(seen)


def test_copies_keep_what_a_batch_carries():
    """Ids travel with their batch, so that lossy loaders are judged, too."""
    images, ids = torch.rand(2, 1, 3, 3), torch.tensor([4, 5])

    copied = cuda._copied((images, ids, {"id": ids}), torch.clone)

    assert torch.equal(images, copied[0])
    assert [4, 5] == copied[2]["id"].tolist()


def test_an_epoch_without_end_is_left(gpu, bench):
    """A pass that does not end is reported as such."""
    gpu(Gpu)

    class Forever(honest.Honest):
        def __iter__(self):
            self.epoch += 1
            while True:
                yield self.batch([0])
                if self.epoch == 0:
                    return

    with pytest.raises(Endless, match="did not end after 44 batches"):
        cuda.consumed_late(bench(Forever), SCENARIO)


def test_memory_is_read_after_each_epoch(gpu, bench):
    """One figure for each epoch, taken when the device has done everything."""
    waited = []

    class Rising(Keeping):
        def wait(self):
            super().wait()
            waited.append(len(waited))

        def allocated(self):
            return 512 * len(waited)

    gpu(Rising)

    assert [512, 1024, 1536] == cuda.device_memory(
        bench(honest.Honest), Scenario(SCENARIO.data, SCENARIO.request, 3)
    )


def judged(device="cuda", **answers):
    """Return a loader whose experiments give these answers."""

    def observe(case, test, experiment, scenario, **more):
        return answers[experiment.partition(":")[2]]

    session = SimpleNamespace(settings=SimpleNamespace(device=device, data="glyphs", seed=1), observe=observe)
    case = Case("any", "any", Description(name="any"))
    return Judged(session, case, "test_batches_arrive_as_handed_out", "A rule.", "pytest", [])


def seen(index, error=0.0):
    """Return an observation of samples at some places of a source of four."""
    labels = np.arange(4)
    places = np.array(index)
    epoch = Epoch(0, [], places, places, np.full(len(index), error), np.ones(len(index), bool), ended=True)
    return Observation(SCENARIO, labels, (12, 20, 3), None, [epoch])


WHOLE = [0, 1, 2, 3]


@pytest.mark.parametrize("place", [rules.DEVICE, rules.PINNED, rules.PAGEABLE])
def test_report_says_what_is_used_again(place):
    """A batch that arrives as another is reported, with the likely cause for the memory it came from."""
    subject = judged(watch=seen(WHOLE), consumed_late=(seen([2, 3, 2, 3]), place))

    with pytest.raises(NotKept) as report:
        rules.test_batches_arrive_as_handed_out(subject)

    assert "4 samples, 2 missing and 2 too many or wrong" in str(report.value)
    assert rules.REUSED[place] in str(report.value)


def test_right_samples_with_other_values_are_reported():
    """A batch that is half overwritten may still be taken for its sample, by its id; its values tell."""
    subject = judged(watch=seen(WHOLE), consumed_late=(seen(WHOLE, error=0.5), rules.PINNED))

    with pytest.raises(NotKept, match=r"off by up to 0\.5"):
        rules.test_batches_arrive_as_handed_out(subject)


def test_lossy_values_are_no_fault():
    """Values that are as far off as in any other pass are none of this test's business."""
    rules.test_batches_arrive_as_handed_out(
        judged(watch=seen(WHOLE, error=0.1), consumed_late=(seen(WHOLE, error=0.1), rules.PINNED))
    )


def test_batches_read_too_early_are_reported():
    """Batches on the device that are not there yet are reported."""
    subject = judged(watch=seen(WHOLE), consumed_at_once=(seen([-1, -1, 2, 3]), rules.DEVICE))

    with pytest.raises(NotKept, match="wait_stream"):
        rules.test_device_batches_are_ready(subject)


def test_batches_in_host_memory_are_ready():
    """Whoever hands out batches in host memory is not asked whether the device has them."""
    subject = judged(watch=seen(WHOLE), consumed_at_once=(seen([-1, -1, 2, 3]), rules.PINNED))

    with pytest.raises(pytest.skip.Exception, match="host memory"):
        rules.test_device_batches_are_ready(subject)


@pytest.mark.parametrize(("per_epoch", "rises"), [(0, False), (15, False), (16, True), (512, True)], ids=str)
def test_rising_device_memory_is_reported(per_epoch, rises):
    """One block of the device's memory in 32 epochs is enough to be found, and less is not kept by anybody."""
    subject = judged(watch=seen(WHOLE), device_memory=[4096 + per_epoch * number for number in range(72)])

    with pytest.raises(NotKept, match="something on the device") if rises else contextlib.nullcontext():
        rules.test_device_memory_stays_flat(subject)


@pytest.mark.parametrize(
    ("device", "found", "runs"),
    [
        ("cuda", None, True),
        ("auto", True, True),
        ("auto", False, False),
        ("cpu", True, False),
        ("emulated:2ms", True, False),
    ],
)
def test_runs_where_there_is_a_device(device, found, runs):
    """Without a CUDA device, or in a run that does not use it, the tests are skipped and name the option."""
    expected = (
        contextlib.nullcontext()
        if runs
        else pytest.raises(pytest.skip.Exception, match="--loader-device cuda")
    )

    with expected:
        rules.cuda.__wrapped__(judged(device, found=found))


def test_both_sides_call_places_alike():
    """The tests know the words of the experiment, which they cannot import."""
    assert (cuda.DEVICE, cuda.PINNED, cuda.PAGEABLE) == (rules.DEVICE, rules.PINNED, rules.PAGEABLE)


@on_a_device
def test_streams_are_held_apart():
    """A held stream is busy, and the consumer's and the others do not hold each other."""
    gpu = cuda.Gpu()
    gpu.hold_consumer(0.2)

    assert [False, True] == [gpu._stream.query(), torch.cuda.default_stream().query()]

    gpu.wait()
    gpu.hold_others(0.2)

    assert [True, False] == [gpu._stream.query(), torch.cuda.default_stream().query()]
    gpu.wait()


@on_a_device
def test_held_for_as_long_as_it_says():
    """Cycles of the device's clock are turned into seconds well enough."""
    gpu = cuda.Gpu()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    with gpu.consuming():
        begin.record()
        gpu.hold_consumer(0.2)
        end.record()
    gpu.wait()

    assert 100 < begin.elapsed_time(end) < 2_000


@on_a_device
def test_faults_are_caught_on_a_device(suite_run):
    """Each loader with a fault fails the tests that it names; needs less than the run over all broken loaders."""
    loaders = {name: value.fails for name, value in vars(on_cuda).items() if hasattr(value, "fails")}
    words = [word for name in loaders for word in ("--loader", f"{on_cuda.__file__}:{name}")]
    suite_run.judge(*words, "--loader-device", "cuda", "--loader-isolation", "none", "-k", "test_cuda")

    assert {(test, name) for name, tests in loaders.items() for test in tests} == {
        re.match(r"(\w+)\[\w+:(\w+)", one.name).groups()
        for one in suite_run.outcomes()
        if one.what == "failed"
    }
