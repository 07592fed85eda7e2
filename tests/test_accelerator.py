"""Where training steps run; the emulated one on a clock that only sleep moves."""

from __future__ import annotations

import time

import pytest
import torch
from torch import Tensor

from loaderproof.model.accelerator import Accelerator, Cpu, Cuda, Emulated, accelerator

MS = 1_000_000
BATCH = torch.zeros(2, 1, 6, 6), torch.zeros(2, dtype=torch.int64)

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA device")


class FakeTime:
    """A clock that stands still unless somebody sleeps or works; sleep may last too long or too short."""

    def __init__(self, error_ns: int = 0) -> None:
        self.now = 5_000
        self.error_ns = error_ns
        self.sleeps: list[int] = []

    def clock(self) -> int:
        return self.now

    def sleep(self, seconds: float) -> None:
        asked = round(seconds * 1e9)
        self.sleeps.append(asked)
        self.now += max(asked + self.error_ns, (asked + 1) // 2)

    def work(self, ns: int) -> None:
        self.now += ns


def emulated(fake: FakeTime, step_ns: int, depth: int = 2) -> Emulated:
    """Make an emulated device that lives in that time."""
    return Emulated(step_ns, depth=depth, clock=fake.clock, sleep=fake.sleep)


def never(images: Tensor, labels: Tensor) -> Tensor:
    """Fail: an emulated device calls no step."""
    raise AssertionError("an emulated step was computed")


def test_emulated_steps_back_to_back_take_their_sum():
    """A producer that is never late keeps the device busy: n steps take exactly n step times."""
    fake = FakeTime()
    device = emulated(fake, 2 * MS)
    start = fake.now

    for _ in range(100):
        fake.work(MS // 3)
        device.run(never, *BATCH)
    device.synchronize()

    # The device is idle only until the first batch is there.
    assert MS // 3 + 100 * 2 * MS == fake.now - start


def test_emulated_device_waits_for_a_slow_producer():
    """Batches 5 ms apart leave a device with steps of 2 ms idle for 3 ms; only the last step is added."""
    fake = FakeTime()
    device = emulated(fake, 2 * MS)
    start = fake.now

    for _ in range(10):
        fake.work(5 * MS)
        device.run(never, *BATCH)
    device.synchronize()

    assert 10 * 5 * MS + 2 * MS == fake.now - start
    assert [2 * MS] == fake.sleeps


def test_emulated_queue_hides_one_late_batch():
    """A batch that is late by less than what is queued costs nothing, one that is later costs the rest."""
    fake = FakeTime()
    device = emulated(fake, 2 * MS)
    start = fake.now

    device.run(never, *BATCH)  # done at 2 ms
    device.run(never, *BATCH)  # done at 4 ms
    fake.work(3 * MS)
    device.run(never, *BATCH)  # queued at 3 ms, done at 6 ms
    fake.work(3 * MS + MS // 2)
    device.run(never, *BATCH)  # queued at 6.5 ms, done at 8.5 ms
    device.synchronize()

    assert 8 * MS + MS // 2 == fake.now - start


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_emulated_queue_is_bounded(depth: int):
    """The call that finds the queue full returns when the oldest step is done, those before it at once."""
    fake = FakeTime()
    device = emulated(fake, 2 * MS, depth)
    start = fake.now
    returned = []

    for _ in range(depth + 2):
        device.run(never, *BATCH)
        returned.append(fake.now - start)

    assert [0] * depth + [2 * MS, 4 * MS] == returned


@pytest.mark.parametrize("error_ns", [60_000, 3 * MS, -60_000], ids=["late", "later than a step", "early"])
def test_emulated_steps_do_not_add_up_bad_sleep(error_ns: int):
    """A sleep that ends too late or too early moves the end of the last step only, not the steps between.

    Too late by less than what is queued, that is: a batch is let in when there is room for it, not when
    the sleeper learns of it.
    """
    fake = FakeTime(error_ns)
    device = emulated(fake, 2 * MS)
    start = fake.now

    for _ in range(100):
        device.run(never, *BATCH)
    device.synchronize()

    assert 100 * 2 * MS + max(error_ns, 0) == fake.now - start


def test_emulated_synchronize_empties_the_queue():
    """After a wait for everything nothing is left to wait for, and the queue has its full room again."""
    fake = FakeTime()
    device = emulated(fake, 2 * MS)
    device.run(never, *BATCH)
    device.run(never, *BATCH)
    device.synchronize()
    slept = list(fake.sleeps)

    device.synchronize()
    device.run(never, *BATCH)
    device.run(never, *BATCH)

    assert slept == fake.sleeps


def test_emulated_device_knows_when_it_was_busy():
    """Each step takes its time, and the device was idle before those steps whose batch came too late."""
    fake = FakeTime()
    device = emulated(fake, 2 * MS)

    for work in (1, 0, 0, 7, 1):
        fake.work(work * MS)
        device.run(never, *BATCH)
    device.synchronize()
    done = device.steps([], [])

    # The third is let in and returns at 3, its end is at 7; the fourth comes at 10.
    assert [0, 0, 0, 3 * MS, 0] == done.idle_ns.tolist()
    assert [2 * MS] * 5 == done.computing_ns.tolist()


def test_emulated_device_forgets():
    """Steps of an earlier pass are not told again, and the pause after them is nobody's."""
    fake = FakeTime()
    device = emulated(fake, 2 * MS)
    device.run(never, *BATCH)
    device.synchronize()
    device.reset()
    fake.work(50 * MS)

    device.run(never, *BATCH)
    done = device.steps([], [])

    assert ([0], [2 * MS]) == (done.idle_ns.tolist(), done.computing_ns.tolist())


@pytest.mark.parametrize("device", [Cpu(), Emulated(MS)], ids=["cpu", "emulated"])
def test_device_that_did_nothing(device: Accelerator):
    """Without a step there is no time of one."""
    done = device.steps([], [])

    assert ([], []) == (done.idle_ns.tolist(), done.computing_ns.tolist())


def test_cpu_is_busy_while_it_runs():
    """On the CPU a step computes from the call of `run` to its return, and what lies between is idle."""
    done = Cpu().steps([3, 10, 30], [7, 20, 31])

    assert ([0, 3, 10], [4, 10, 1]) == (done.idle_ns.tolist(), done.computing_ns.tolist())


def test_emulated_device_sleeps():
    """On the real clock steps take at least their time and burn a small part of it."""
    device = Emulated(5 * MS)
    start, burnt = time.perf_counter_ns(), time.process_time_ns()

    for _ in range(40):
        device.run(never, *BATCH)
    device.synchronize()

    took = time.perf_counter_ns() - start
    assert 40 * 5 * MS <= took
    assert (time.process_time_ns() - burnt) / took < 0.5


def test_emulated_transfer_copies():
    """A batch put on the emulated device shares no memory with what the loader handed out."""
    images = torch.zeros(2, 1, 6, 6)

    moved = Emulated(MS).put(images)
    images += 1

    assert 0 == moved.sum()


def test_cpu_computes_at_once():
    """On the CPU `run` returns what the step returns, from the very tensors that were put there."""
    device = Cpu()
    images, labels = (device.put(tensor) for tensor in BATCH)

    result = device.run(lambda *batch: batch, images, labels)

    assert (BATCH[0], BATCH[1]) == result
    assert BATCH[0] is images


@pytest.mark.parametrize(
    ("spec", "step_ns"),
    [
        ("emulated:2ms", 2 * MS),
        ("emulated:0.3ms", 300_000),
        ("emulated:300us", 300_000),
        ("emulated:1.5s", 1_500 * MS),
    ],
)
def test_emulated_step_is_read_with_its_unit(spec: str, step_ns: int):
    """A step may be given in us, ms or s, whole or with a decimal point."""
    made = accelerator(spec)

    assert isinstance(made, Emulated)
    assert step_ns == made.step_ns


@pytest.mark.parametrize(
    "step",
    ["", "2", "ms", "0ms", "0.0s", "-2ms", "nanms", "2 ms", "2ms ", "2ms\n", "2MS", "1e3ms", "2m", "٢ms"],
)
def test_nonsense_step_is_refused(step: str):
    """A step without number, unit or duration raises an error that quotes it and shows a right one."""
    with pytest.raises(ValueError, match=r"is no step time; .*such as emulated:2ms") as raised:
        accelerator(f"emulated:{step}")

    assert repr(step) in str(raised.value)


@pytest.mark.parametrize("spec", ["", "gpu", "cpu:0", "CUDA", "cuda:1", "emulate:2ms", "auto:2ms"])
def test_unknown_device_is_refused(spec: str):
    """A device of no known kind raises an error that quotes it and lists the kinds."""
    with pytest.raises(ValueError, match="auto, cuda, cpu, or emulated:STEP") as raised:
        accelerator(spec)

    assert repr(spec) in str(raised.value)


@pytest.mark.parametrize(("step_ns", "depth"), [(0, 2), (-1, 2), (1, 0)])
def test_emulated_device_needs_a_step_and_room(step_ns: int, depth: int):
    """An emulated device without a step time or without room for one step cannot be made."""
    with pytest.raises(ValueError, match="must be at least 1"):
        Emulated(step_ns, depth=depth)


def test_missing_cuda_says_what_to_do(monkeypatch: pytest.MonkeyPatch):
    """`cuda` without a device raises one line that names torch's build, the remedy and the option."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)

    with pytest.raises(RuntimeError, match=r"sees no CUDA device; install .* --loader-device") as raised:
        accelerator("cuda")

    assert torch.__version__ in str(raised.value)
    assert "\n" not in str(raised.value)


def test_auto_emulates_without_cuda(monkeypatch: pytest.MonkeyPatch):
    """`auto` without a CUDA device emulates one with the stated step, and its name says so."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)

    made = accelerator("auto")

    assert ("emulated 2 ms step", True, 2 * MS) == (made.name, made.emulated, made.step_ns)


@pytest.mark.parametrize("spec", ["auto", "cuda"])
def test_cuda_is_taken_where_torch_sees_it(spec: str, monkeypatch: pytest.MonkeyPatch):
    """`auto` and `cuda` take the first CUDA device, and its name says which model it is."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: f"model of {device}")

    made = accelerator(spec)

    assert isinstance(made, Cuda)
    assert ("cuda model of cuda:0", False) == (made.name, made.emulated)


class FakeStream:
    """Stands in for a GPU's stream: what is queued is done later, in order, and stamps the events."""

    def __init__(self) -> None:
        self.queue: list[FakeEvent | float] = []
        self.made = 0

    def event(self, *, enable_timing: bool) -> FakeEvent:
        assert enable_timing
        self.made += 1
        return FakeEvent(self)

    def drain(self, now: float) -> None:
        """Do what is queued, from a time on in milliseconds."""
        for one in self.queue:
            if isinstance(one, FakeEvent):
                one.at = now
            else:
                now += one
        self.queue.clear()


class FakeEvent:
    """An event of that stream; it cannot be read before the stream has come to it."""

    def __init__(self, stream: FakeStream) -> None:
        self.stream = stream
        self.at: float | None = None

    def record(self) -> None:
        self.at = None
        self.stream.queue.append(self)

    def elapsed_time(self, end: FakeEvent) -> float:
        assert self.at is not None
        assert end.at is not None
        return end.at - self.at


@pytest.fixture
def stream(monkeypatch: pytest.MonkeyPatch) -> FakeStream:
    """A stream, where torch seems to see a CUDA device."""
    made = FakeStream()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "fake")
    monkeypatch.setattr(torch.cuda, "Event", made.event)
    return made


def test_cuda_steps_lie_between_events(stream: FakeStream):
    """The device stamps begin and end of each step; a copy before a step belongs to no step."""
    device = Cuda()

    for copy_ms, kernel_ms in ((5.0, 2.0), (0.5, 1.5), (0.0, 4.0)):
        stream.queue.append(copy_ms)
        device.run(lambda images, labels: stream.queue.append(kernel_ms), *BATCH)  # noqa: B023, ARG005
    stream.drain(1_000.0)
    done = device.steps([0, 0, 0], [1, 1, 1])

    assert [0, MS // 2, 0] == done.idle_ns.tolist()
    assert [2 * MS, 3 * MS // 2, 4 * MS] == done.computing_ns.tolist()


def test_cuda_events_are_used_again(stream: FakeStream):
    """A second pass makes no new events, and tells nothing of the first."""
    device = Cuda()
    for steps in (3, 2):
        device.reset()
        for _ in range(steps):
            device.run(lambda images, labels: stream.queue.append(2.0), *BATCH)  # noqa: ARG005
        stream.drain(0.0)

    assert [2 * MS] * 2 == device.steps([], []).computing_ns.tolist()
    assert 3 * 2 == stream.made


@needs_cuda
def test_cuda_steps_are_as_long_as_their_kernels():
    """A step of twice the work takes the device about twice as long, and a pause before it is idle."""
    device = accelerator("cuda")
    square = torch.rand(4096, 4096, device=device.device)

    def step(times: int) -> None:
        for _ in range(times):
            torch.mm(square, square)

    for repeat in range(2):  # the first loads the kernels
        device.reset()
        for times in (10, 20):
            device.run(lambda *_: step(times), *BATCH)  # noqa: B023 - called at once
            device.synchronize()
            time.sleep(0.05 * repeat)
    done = device.steps([0, 0], [1, 1])

    assert 2 == pytest.approx(done.computing_ns[1] / done.computing_ns[0], rel=0.3)
    assert done.idle_ns[1] > 45 * MS


def test_cpu_and_cuda_compute():
    """Only the emulated device says that it is."""
    assert (False, "cpu") == (Cpu().emulated, Cpu().name)
    assert Emulated(300_000).emulated
    assert "emulated 0.3 ms step" == Emulated(300_000).name


@needs_cuda
@pytest.mark.parametrize("pinned", [False, True], ids=["pageable", "pinned"])
def test_cuda_transfer_keeps_values(pinned):
    """A batch put on the GPU, from pinned memory or not, has the values that it had here."""
    images = torch.rand(64, 1, 28, 28)
    device = accelerator("cuda")

    moved = device.put(images.pin_memory() if pinned else images)
    device.synchronize()

    assert device.device == moved.device
    torch.testing.assert_close(images, moved.cpu(), rtol=0, atol=0)


@needs_cuda
def test_cuda_synchronize_waits():
    """A step is started before it is done; after the wait it is done."""
    device = accelerator("cuda")
    square = torch.rand(8192, 8192, device=device.device)
    done = torch.cuda.Event()

    def step(images: Tensor, labels: Tensor) -> Tensor:
        result = square @ square @ square @ square
        done.record()
        return result

    device.run(step, *BATCH)  # loads the kernels, which waits
    device.synchronize()
    device.run(step, *BATCH)
    pending = not done.query()
    device.synchronize()

    assert (True, True) == (pending, done.query())
