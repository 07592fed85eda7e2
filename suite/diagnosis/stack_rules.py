"""Which stage of loading a stack belongs to: a table of rules over its functions, files and lines."""

from __future__ import annotations

import linecache
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from loaderproof.suite.diagnosis.frames import Frame


class Stage(StrEnum):
    """What a thread was doing."""

    READ = "read"
    DECODE = "decode"
    TRANSFORM = "transform"
    COLLATE = "collate"
    OWN = "loader's own code"
    """Code of the loader or its data set that no rule names; the hottest functions say what it is."""
    HANDOVER = "hand-over"
    PIN = "pin memory"
    IMPORT = "import"
    START = "start and end of workers"
    BATCH_WAIT = "waiting for a batch"
    WAIT = "waiting for work or room"
    TRANSFER = "transfer"
    STEP = "training step"
    OTHER = "other"


# What a worker is there for; the rest is waiting, moving, and beginning.
LOADING = frozenset({Stage.READ, Stage.DECODE, Stage.TRANSFORM, Stage.COLLATE, Stage.OWN})


@dataclass(frozen=True)
class Rule:
    """A frame that tells the stage.

    Attributes:
        stage: that it tells.
        file: pattern that the end of the path matches.
        function: pattern of the whole name, without the class.
        line: pattern found in the line of source code; empty for any line.
        innermost: whether it tells only as the function that was running.
        native: whether the work is done in threads that have no Python stacks.
    """

    stage: Stage
    file: str = r".*"
    function: str = r".*"
    line: str = ""
    innermost: bool = False
    native: bool = False

    def fits(self, frame: Frame, *, innermost: bool) -> bool:
        """Tell whether a frame is such a one."""
        return bool(
            (innermost or not self.innermost)
            and re.search(rf"(?:^|/)(?:{self.file})$", frame.file)
            and re.fullmatch(self.function, frame.function.rpartition(".")[2])
            and (not self.line or re.search(self.line, linecache.getline(frame.file, frame.line)))
        )


# They hold for whatever these functions call.
_WHOLE = (
    Rule(Stage.IMPORT, r"<frozen importlib\._bootstrap\w*>", r"_find_and_load"),
    Rule(Stage.TRANSFER, r"model/accelerator\.py", r"put"),
    Rule(Stage.STEP, r"model/accelerator\.py"),
    Rule(Stage.PIN, r"torch/utils/data/_utils/pin_memory\.py", r"pin_memory"),
    Rule(Stage.START, r"multiprocessing/process\.py", r"start|join|terminate|kill"),
    Rule(Stage.START, r"torch/utils/data/dataloader\.py", r"_shutdown_workers"),
    Rule(Stage.START, r"multiprocessing/(util|spawn)\.py", r"_exit_function|_run_after_forkers|prepare"),
    # tf.data starts its threads with an iterator.
    Rule(Stage.START, r"tensorflow/python/ops/gen_dataset_ops\.py", r"make_iterator|anonymous_iterator\w*"),
    Rule(Stage.WAIT, r"socket\.py", r"accept"),
    Rule(Stage.HANDOVER, r"torch/multiprocessing/reductions\.py"),
    Rule(Stage.HANDOVER, r"multiprocessing/(reduction|resource_sharer|shared_memory)\.py"),
)
# The innermost frame for which there is a rule tells.
_EACH = (
    Rule(Stage.WAIT, r"threading\.py", r"wait|acquire|join|_wait_for_tstate_lock"),
    Rule(Stage.WAIT, r"queue\.py", r"get|put", innermost=True),
    Rule(Stage.WAIT, r"selectors\.py", r"select"),
    Rule(Stage.WAIT, r"multiprocessing/connection\.py", r"_?poll|wait|accept"),
    # The length of a message is what it waits for; what comes then is the message.
    Rule(Stage.WAIT, r"multiprocessing/connection\.py", r"_recv_bytes", r"_recv\(4\)"),
    Rule(Stage.WAIT, r"multiprocessing/(synchronize|pool|managers)\.py", innermost=True),
    Rule(Stage.WAIT, r"multiprocessing/queues\.py", line=r"acquire|with self\._[rw]lock", innermost=True),
    Rule(Stage.WAIT, r"concurrent/futures/\w+\.py", r"_?result|wait|as_completed|_worker", innermost=True),
    Rule(Stage.HANDOVER, r"multiprocessing/connection\.py", r"(?!_recv$).*"),
    Rule(Stage.HANDOVER, r"multiprocessing/(queues|pool)\.py"),
    Rule(Stage.HANDOVER, r"pickle\.py"),
    Rule(
        Stage.BATCH_WAIT, r"tensorflow/python/ops/gen_dataset_ops\.py", r"iterator_get_next\w*", native=True
    ),
    Rule(Stage.HANDOVER, r"tensorflow/python/framework/ops\.py", r"_?numpy|__array__|__dlpack__"),
    # DataLoader has its steps recorded, whether a profiler runs or not.
    Rule(Stage.OTHER, r"torch/autograd/profiler\.py"),
    Rule(Stage.COLLATE, r"torch/utils/data/_utils/collate\.py"),
    Rule(Stage.COLLATE, function=r"\w*collate\w*"),
    Rule(Stage.DECODE, r"PIL/(ImageFile|\w+ImagePlugin)\.py"),
    Rule(Stage.DECODE, r"PIL/Image\.py", r"_?open|load|decode|draft|convert"),
    Rule(Stage.DECODE, r"(torchvision/io|torchaudio|torchcodec|imageio|skimage/io|tifffile|av)/.*"),
    Rule(Stage.DECODE, r"(turbojpeg|simplejpeg|soundfile)(/.*)?\.py"),
    Rule(Stage.DECODE, line=r"imdecode|imread\(|decode_(jpeg|png|image)|\bdecode\(", innermost=True),
    Rule(Stage.READ, r"loaders/sources/\w+\.py"),
    Rule(Stage.READ, r"(h5py|lmdb|zarr|fsspec|s3fs|pyarrow|lance|array_record|urllib3|requests|botocore)/.*"),
    Rule(Stage.READ, r"(gzip|_compression|bz2|lzma|zipfile|zipfile/__init__|tarfile|ssl|pathlib|mmap)\.py"),
    Rule(Stage.READ, r"numpy/(lib/(_npyio_impl|npyio|format|_format_impl)|_?core/memmap)\.py"),
    Rule(
        Stage.READ,
        line=r"(^|[^.\w])open\(|\.(read|readinto|readlines?|read_bytes|read_text)\(|\bpread\(|np\.(load|fromfile)\(",
        innermost=True,
    ),
    Rule(
        Stage.TRANSFORM, r"(torchvision/(transforms|tv_tensors)|albumentations|kornia|imgaug|skimage|PIL)/.*"
    ),
    Rule(Stage.TRANSFORM, r"loaders/_(tf_)?augmentation\.py"),
    Rule(Stage.TRANSFORM, function=r"\w*(augment|transform)\w*"),
    Rule(Stage.TRANSFORM, line=r"\bcv2\.\w+\(", innermost=True),
)
# What runs inside these, and is in none of the above, is the loader's; the last line of a rule is never this.
_OWNERS = (
    Rule(Stage.OWN, r"torch/utils/data/_utils/fetch\.py"),
    Rule(Stage.OWN, r"suite/experiments/workbench\.py", r"ending"),
    Rule(Stage.OWN, r"concurrent/futures/thread\.py", r"run"),
    Rule(Stage.OWN, r"multiprocessing/(pool|process)\.py", r"mapstar|worker|run"),
    Rule(Stage.OWN, r"threading\.py", r"run"),
)


def matching(frames: Sequence[Frame]) -> Rule:
    """Return the rule that tells the stage of a stack.

    Args:
        frames: the outermost first.
    """
    last = len(frames) - 1
    for rules in (_WHOLE, _EACH, _OWNERS):
        for place in range(last, -1, -1):
            for rule in rules:
                if rule.fits(frames[place], innermost=place == last):
                    return rule
    return Rule(Stage.OTHER)
