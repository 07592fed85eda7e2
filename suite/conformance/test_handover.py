"""The moment at which a batch goes over to the consumer."""

from __future__ import annotations

from loaderproof.suite.conformance.scenarios import COLOUR
from loaderproof.suite.judged import Judged, Place


def test_batches_are_finished_when_handed_out(subject: Judged) -> None:
    """A batch does not change while its consumer holds it and asks for nothing.

    Why: a batch that is still being copied, or is already being filled again, is nonsense for whoever
    is quick, or slow. Training goes on with it, and no error is raised.

    Reports: libffcv/ffcv#37, pytorch/pytorch#130785

    Causes: a thread or an asynchronous copy that nobody waits for; a ring of buffers with fewer
    slots than batches on their way.

    Remedy: wait for the copy before the batch is handed out, with an event or by joining the thread;
    fill a slot again only when the batch after it has been asked for, or hand out fresh memory.
    """
    scenario = subject.scenario(COLOUR, epochs=1, batch_size=6)
    subject.run("watching:watch", scenario)  # where nothing can be watched, nothing is judged here
    changed = subject.run("handover:unfinished", scenario)
    if changed:
        subject.fail(
            Place(scenario, 0, changed[0]),
            expected="the values that it had when it came, for as long as nothing is asked for",
            got=f"other values a moment later, in {len(changed)} batches: {changed[:5]}",
            hint="a background copy that is not waited for, or a buffer that is filled again too soon",
        )
