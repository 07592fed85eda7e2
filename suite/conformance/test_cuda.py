"""What a consumer on a CUDA device relies on; skipped where the run has no such device."""

from __future__ import annotations

import numpy as np
import pytest

from loaderproof.suite.conformance.health import content, difference, undisturbed
from loaderproof.suite.judged import Judged, Place
from loaderproof.suite.observation import Epoch, Observation, Scenario
from loaderproof.suite.trends import EPOCHS, PAIRS, rises

# Batches of 360 KiB, so many that no ring of buffers holds an epoch.
LARGE, SMALL = "probe:200:64x60x3", "probe:100:32x30x3"
PATIENCE = 20
# torch gives out device memory in blocks of this size.
BLOCK = 512
NO_DEVICE = "it takes a CUDA device: run it where there is one, with --loader-device cuda or auto"
# As experiments/cuda.py calls the places.
DEVICE, PINNED, PAGEABLE = "device", "pinned", "pageable"
REUSED = {
    DEVICE: "the loader's stream uses memory of the device again before the consumer's stream has read it:"
    " record_stream() is missing",
    PINNED: "pinned memory is filled again when nobody holds its batch, before the copy out of it has ended",
    PAGEABLE: "batches lie in pageable memory, which torch reads before a copy returns, so they are filled meanwhile",
}
LATE = "the consumer's stream does not wait for the one that fills the batch: wait_stream() is missing"


@pytest.fixture(autouse=True)
def cuda(subject: Judged) -> None:
    """Skip these tests in runs without a CUDA device."""
    device = subject.session.settings.device
    # A run that asks for `cuda` where there is none has ended by now.
    if device != "cuda" and not (device == "auto" and subject.run("cuda:found", _scenario(subject))):
        pytest.skip(NO_DEVICE)


def test_batches_arrive_as_handed_out(subject: Judged) -> None:
    """A batch that is copied on a stream which gets to it later, and is let go of at once, arrives as it was.

    Why: training runs behind the loader, as it should: `batch.to("cuda", non_blocking=True)` returns
    before the copy has begun, and a model reads a batch on the device when its turn comes. Where the
    memory is used again by then, samples are trained on twice and others never, with no error anywhere.

    Reports: pytorch/pytorch#68749

    Causes: a pool or ring of pinned buffers takes one back when Python has let go of it, while the
    device still has to read it; memory of the device is taken back by the loader's own stream.

    Remedy: pin each batch with `pin_memory()`, whose memory torch keeps until the copies out of it have
    ended; or record an event behind the copy and wait for it before the buffer is filled again. On the
    device, `tensor.record_stream(torch.cuda.current_stream())` where the batch is handed out.
    """
    scenario = _scenario(subject)
    before = undisturbed(subject, scenario).epochs[0]
    seen, lying = _consumed(subject, scenario, "cuda:consumed_late")
    _expect_same(subject, scenario, seen.epochs[0], before, REUSED[lying])


def test_device_batches_are_ready(subject: Judged) -> None:
    """A batch on the device can be read at once, on whatever stream the consumer has made the current one.

    Why: a consumer on a stream of its own, to copy or compute beside something else, reads memory that
    the loader's stream has not written yet: old samples, or none.

    Reports: NVIDIA/apex#304

    Causes: the loader copies or decodes on a stream of its own, or in a thread, where the default stream
    is current; it makes nobody wait for it, or only the default stream.

    Remedy: `torch.cuda.current_stream().wait_stream(own)` in the consumer's thread, before each batch is
    handed out.
    """
    scenario = _scenario(subject)
    before = undisturbed(subject, scenario).epochs[0]
    seen, lying = _consumed(subject, scenario, "cuda:consumed_at_once")
    if lying != DEVICE:
        pytest.skip("its batches lie in host memory, and are ready when they are handed out")
    _expect_same(subject, scenario, seen.epochs[0], before, LATE)


def test_device_memory_stays_flat(subject: Judged) -> None:
    """Over 72 epochs of one loader, whose batches are copied to a CUDA device and dropped, its memory does not rise.

    Memory is what tensors of the loader's process take on the device; that of its workers, and what
    libraries take there without torch, is not counted.

    Why: it ends a run with "CUDA out of memory" after hours, and the error names the model.

    Causes: batches on the device are kept for each epoch: in a list, by an iterator that lives on, by
    a log that holds tensors instead of numbers.

    Remedy: let go of them when the epoch ends; keep numbers, `tensor.item()`, in place of tensors.
    """
    scenario = subject.scenario(SMALL, epochs=EPOCHS, batch_size=10, shuffle=True, seed=subject.seed)
    undisturbed(subject, _scenario(subject))
    taken: list[int] = subject.run("cuda:device_memory", scenario, times=PATIENCE)
    if rises(taken, BLOCK):
        subject.fail(
            Place(scenario),
            expected="no more memory of the device in use at the end than at the beginning",
            got=f"each of {PAIRS} epochs has less than the one {PAIRS} later; every eighth:"
            f" {', '.join(map(str, taken[::8]))} bytes",
            hint="something on the device is kept for each epoch",
        )


def _scenario(subject: Judged) -> Scenario:
    return subject.scenario(LARGE, epochs=1, batch_size=8)


def _consumed(subject: Judged, scenario: Scenario, experiment: str) -> tuple[Observation, str]:
    seen: tuple[Observation, str] = subject.run(experiment, scenario, times=2)
    return seen


def _expect_same(subject: Judged, scenario: Scenario, epoch: Epoch, before: Epoch, hint: str) -> None:
    """Fail unless the samples of an epoch are those of another, with values no worse."""
    if content(epoch) == content(before) and _error(epoch) <= max(_error(before), 1e-6):
        return
    subject.fail(
        Place(scenario),
        expected=f"the {len(before.index)} samples that come where nothing is queued",
        got=f"{difference(epoch, before)}; values off by up to {_error(epoch):.3g}",
        hint=hint,
    )


def _error(epoch: Epoch) -> float:
    """Return the largest difference from the source; NaN is what the test of values reports."""
    return float(np.nanmax(epoch.error, initial=0))
