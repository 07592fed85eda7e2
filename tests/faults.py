"""Publicly reported faults of data loaders, and the page that says which test catches which.

`python tests/faults.py` writes docs/faults.md anew.
"""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from test_broken_loaders import LOADERS, Name

PAGE = Path(__file__).parents[1] / "docs" / "faults.md"
WIDTH = 110  # of a line of the matrix
TESTS_WIDTH = 60
HEAD = """\
# Faults

Faults of data loaders that people met and reported in public, and the conformance tests that catch \
each. A row is caught if a loader made with that fault fails the tests named; every such loader is in \
[tests/broken_loaders](../tests/broken_loaders), and `pytest tests/` runs them all and prints this \
matrix as it came out. Made by `python tests/faults.py`.
"""
COLUMNS = "| row | fault | reports | caught by | loaders |\n|---|---|---|---|---|\n"


@dataclass(frozen=True)
class Fault:
    """One reported fault.

    Attributes:
        row: its name here: a letter for the kind, and a number.
        what: what goes wrong.
        reports: `owner/repository#number`, one or two.
        out_of_reach: why no test of a loader from outside can catch it; empty if one does.
    """

    row: str
    what: str
    reports: tuple[str, ...]
    out_of_reach: str = ""


KINDS = {
    "A": "Randomness",
    "B": "Order",
    "C": "Coverage, epochs and ranks",
    "D": "Length and batch size",
    "E": "Types, shapes, values and containers",
    "F": "Labels",
    "G": "Buffers and devices",
    "H": "Processes, memory and errors",
    "I": "Resuming",
    "J": "Determinism",
}

# Row, what goes wrong, reports.
REPORTED = """
A1 | Workers forked from one NumPy state augment their samples alike | pytorch/pytorch#5059 open-mmlab/OpenPCDet#886
A2 | Workers forked anew each epoch repeat the draws of the first epoch | xingyizhou/CenterNet#233
A3 | One family of generators is reseeded alike each epoch while the others move on | Lightning-AI/pytorch-lightning#20412
A4 | A cache behind the augmentation keeps the draws of the first epoch for ever | tensorflow/tensorflow#47755
A5 | Augmenting in place changes the stored sample, a little more each epoch | facebookresearch/pycls#21
A6 | Seeds of workers leave the rank out, so all ranks draw alike | NVIDIA-BioNeMo/nvSubquadratic#140
A8 | Parallel calls draw from one generator in the order they happen to run | tensorflow/tensorflow#44491 tensorflow/tensorflow#34909
A10 | A resumed run draws as in epoch 0, as seeds hold the worker alone | fangchangma/sparse-to-dense.pytorch#19
B1 | Every epoch has the same order, unless a hook is called | pytorch/pytorch#31771 tensorflow/tensorflow#27680
B2 | A cache behind the batching keeps the same samples together | sql-machine-learning/sqlflow#2143
B4 | A small shuffle buffer over sorted data gives batches of one class | webdataset/webdataset#62 tensorflow/tensorflow#36626
B6 | Epochs are counted in a copy of the pipeline, so the count never rises | webdataset/webdataset#172
B7 | Shuffling after sharding leaves each rank the same part for ever | meta-pytorch/data#302 webdataset/webdataset#73
B9 | set_epoch reaches the parent's copy and not the one that works | huggingface/datasets#6673
B10 | Other samples are drawn each epoch, though shuffling is off | mosaicml/streaming#749
B11 | With workers the promised order is lost | dmlc/dgl#5068
B12 | A wrapper shuffles what the user's sampler had put in order | Lightning-AI/pytorch-lightning#21447
B14 | The epoch is passed on to a sampler, but not to a batch sampler | Lightning-AI/pytorch-lightning#13316
C1 | Each worker yields the whole data set | huggingface/datasets#3423 pytorch/pytorch#30599
C2 | Padding for even ranks makes samples count twice | pytorch/pytorch#25162
C3 | Every worker drops a rest of its own, perhaps all it has | pytorch/pytorch#33413 google/grain#1129
C6 | What is still in the prefetch queue when the source ends is lost | meta-pytorch/data#899 ray-project/ray#18266
C8 | The epoch has the right length, but its shards are drawn with replacement | webdataset/webdataset#158
C9 | An epoch never ends | webdataset/webdataset#379
C10 | A repeat ahead of shuffling mixes the samples of two epochs | tensorflow/tensorflow#22010
C12 | The split for testing holds samples of the one for training | huggingface/datasets#5435 marin-community/marin#2700
C16 | Sources mixed after they were split come whole on every rank | huggingface/datasets#7868
C17 | Ranks draw their orders from different seeds, so parts overlap | huggingface/datasets#5696 karpathy/llm.c#792
C18 | Ranks have unequally many batches, and the longest waits for ever | huggingface/datasets#6623
C19 | One worker works and the others, silently, do nothing | huggingface/datasets#8669
C20 | A sample that cannot be read is replaced by its neighbour | rom1504/clip-retrieval#13
C21 | An exception out of a transform is taken for the end of the epoch | Lightning-AI/pytorch-lightning#5055
C22 | An empty batch comes, to make counts equal | NVIDIA/DALI#3855 huggingface/accelerate#209
C24 | The last batch is filled up with samples that came already | NVIDIA/DALI#3488
C25 | Files of two samples lie among each other, and each sample lacks some | ray-project/ray#65044 webdataset/webdataset#407
C26 | Names of files that hold dots are cut at the wrong one | webdataset/webdataset#237 huggingface/datasets#7144
C27 | Mixing several sources ends with the shortest, or fails at an empty one | huggingface/datasets#7955 huggingface/datasets#5812
C28 | The second pass over the loader is empty | tensorflow/datasets#2270 facebookresearch/spdl#1359
C29 | A new iterator goes on where the old one was left | meta-pytorch/data#550
C30 | Leaving an epoch early breaks the loader for good | facebookresearch/spdl#1433
C32 | A cache that was filled in part is taken for a whole one, or thrown away | TensorSpeech/TensorFlowASR#264 tensorflow/tensorflow#50952
C33 | Fewer samples than a batch, and the rest dropped: nothing comes, and nothing is said | RasmussenLab/vamb#425
D1 | len() counts samples instead of batches | pytorch/pytorch#40972
D2 | len() does not know what each worker drops | facebookresearch/detectron2#5035
D4 | Batches are smaller than asked for, as each worker has a rest | pytorch/pytorch#44108
E1 | Python's floats become float64 tensors | pytorch/pytorch#31689
E2 | Values lose precision on their way, and nothing says so | huggingface/datasets#5517
E3 | The stored schema undoes a cast that was asked for | huggingface/datasets#7472
E4 | Labels are cut to 8 or 16 bits | facebookresearch/detectron2#5386 urvashik/knnlm#6
E6 | Values are scaled or not according to their dtype | pytorch/vision#546
E7 | A reshape is taken for a transpose, which square images hide | chongyi-zheng/stable_contrastive_rl#3 ehoogeboom/multinomial_diffusion#1
E10 | The note of how the camera was held is heeded by some decoders and not by others | NVIDIA/DALI#2660
E11 | Pinning or collating changes or loses the container of a batch | pytorch/pytorch#48419 meta-pytorch/data#1085
E12 | The attention mask covers the padding, too | NVIDIA-NeMo/Automodel#3704 JoakimEdin/medical-coding-reproducibility#13
E14 | Windows over a text skip tokens, or targets are not shifted | rasbt/LLMs-from-scratch#23 Project-MONAI/GenerativeModels#314
F1 | Two listings in different orders are paired by place | Dana-Farber-AIOS/pathml#56 minar09/cp-vton-plus#8
F3 | Folders called by numbers are sorted as text, so class 100 becomes 2 | modestyachts/ImageNetV2#10
F4 | A hidden folder beside the classes becomes a class | open-mmlab/mmpretrain#507
G1 | One buffer is filled again and again, so batches that are kept change | NVIDIA/DALI#1375 NVIDIA/DALI#1399
G2 | Read-only memory is wrapped as a tensor to write to | pytorch/vision#4353 pytorch/pytorch#5442
G3 | Batches are views of the loader's memory, and writing reaches it | tensorflow/tensorflow#45964
G4 | A buffer is filled again before the copy out of it has ended | libffcv/ffcv#37 pytorch/pytorch#130785
G6 | Each epoch opens another stream, and the memory cached on the device grows | huggingface/pytorch-image-models#2784
G7 | A small view drags all of its storage between processes | embeddings-benchmark/mteb#4747
H1 | Forked workers copy Python's objects page by page as they touch them | pytorch/pytorch#20433 pytorch/pytorch#5902
H2 | Pages of a mapped file stay in memory once they were touched | karpathy/nanoGPT#287 karpathy/nanoGPT#428
H3 | Descriptors grow in number while batches are kept | pytorch/pytorch#973
H4 | Every iterator that is left early leaves a thread | libffcv/ffcv#345 libffcv/ffcv#393
H5 | Names in shared memory that a killed run left stop the next one | mosaicml/streaming#781
H6 | A worker is killed, and the parent waits for ever | pytorch/pytorch#21554
H7 | A lock that a thread held at the fork stays locked in the worker | pytorch/pytorch#45198 pytorch/pytorch#1838
H8 | Workers outlive a loader that was left early | apache/mxnet#13318
H9 | The loading thread dies, and the consumer waits for ever | meta-pytorch/torchrec#4294 microsoft/infinibatch#17
H11 | Forked workers share the position in one open file | numpy/numpy#18124 pytorch/pytorch#11887
H12 | Shuffle buffers of iterators that are over stay in memory | tensorflow/tensorflow#44176
H13 | A second iterator waits for the first for ever | meta-pytorch/data#1198
H15 | A read that fails leaves temporary files | webdataset/webdataset#503
I1 | The place is restored and the order is not | huggingface/accelerate#4195
I2 | What lay in the shuffle buffer is lost | huggingface/datasets#7901
I3 | After resuming, all later epochs hold only the rest, too | huggingface/datasets#7447 Lightning-AI/litData#316
I5 | What was read ahead is counted wrong by a batch, so some come again | huggingface/accelerate#3938
I6 | A state from the end of an epoch repeats or loses an epoch | meta-pytorch/data#1437
I8 | A state taken soon after resuming lacks some of the workers | meta-pytorch/data#1251
I9 | A state taken before the first batch is empty, or raises | Lightning-AI/litData#331 meta-pytorch/data#1260
I10 | A state is accepted, and the epoch starts at its beginning | mosaicml/streaming#437
I11 | Resuming with more or fewer ranks skips or repeats samples | huggingface/transformers#40245
I15 | Resuming fails without workers | Lightning-AI/litData#24
I16 | The state lacks the epoch, so the order is another | meta-pytorch/data#1513
I17 | The state is the loader's own, and changes as it goes on | pytorch/rl#3966
J1 | The order is certain, unless more files are read at once than there are | tensorflow/tensorflow#34180
J3 | Which rank gets which sample hangs on the load of the machine | ray-project/ray#58658
J4 | Without workers the seed has no effect | meta-pytorch/torchtune#168
"""  # noqa: E501  # a line is a row
IMAGES_ONLY = "the contract knows images and labels only so far, and has no truth for sequences"
OUT_OF_REACH = {
    "E12": IMAGES_ONLY,
    "E14": IMAGES_ONLY,
    "G6": "to be seen only on a CUDA device; the memory that is watched is the host's",
    "H2": "no fault: the kernel takes such pages back, so only other memory is judged",
}


def _read(line: str) -> Fault:
    row, what, reports = line.split(" | ")
    return Fault(row, what, tuple(reports.split()), OUT_OF_REACH.get(row, ""))


FAULTS = {fault.row: fault for fault in map(_read, REPORTED.strip().splitlines())}


@dataclass(frozen=True)
class Caught:
    """A loader with a fault, and the tests that it fails."""

    file: str
    loader: str
    tests: tuple[str, ...]


def named() -> dict[str, list[Caught]]:
    """Return for each row the loaders that name it, with the tests that they name."""
    return by_row((name, loader.fails) for name, loader in LOADERS.items())


def by_row(outcomes: Iterable[tuple[Name, Iterable[str]]]) -> dict[str, list[Caught]]:
    """Return for each row what became of the loaders that name it.

    Args:
        outcomes: file and name of each loader, and the tests that it fails.
    """
    rows: dict[str, list[Caught]] = {}
    for name, tests in outcomes:
        for row in LOADERS[name].rows:
            rows.setdefault(row, []).append(Caught(*name, tuple(sorted(tests))))
    return rows


def mistakes(rows: Mapping[str, list[Caught]]) -> list[str]:
    """Return what is wrong with rows and the loaders that name them, in words."""
    caught = {row for row, found in rows.items() if any(one.tests for one in found)}
    strange = [f"{row}: a loader names this row, and there is none" for row in rows if row not in FAULTS]
    uncaught = [
        f"{fault.row}: no loader with this fault fails a test, and nothing says why ({fault.what})"
        for fault in FAULTS.values()
        if fault.row not in caught and not fault.out_of_reach
    ]
    excused = [
        f"{fault.row}: said to be out of reach, and caught"
        for fault in FAULTS.values()
        if fault.row in caught and fault.out_of_reach
    ]
    return strange + uncaught + excused


def page(rows: Mapping[str, list[Caught]]) -> str:
    """Return docs/faults.md."""
    parts = [HEAD]
    for kind, title in KINDS.items():
        lines = [_line(fault, rows.get(fault.row, [])) for fault in FAULTS.values() if fault.row[0] == kind]
        parts.append(
            f"\n## {kind}. {title}\n\n| row | fault | reports | caught by | loaders |\n|---|---|---|---|---|\n"
        )
        parts.append("".join(lines))
    return "".join(parts)


def _line(fault: Fault, found: list[Caught]) -> str:
    tests = ", ".join(f"[{name}](properties/{name}.md)" for name in _properties(found))
    loaders = ", ".join(f"[`{one.loader}`](../tests/broken_loaders/{one.file}.py)" for one in found)
    by = f"*not caught: {fault.out_of_reach}*" if fault.out_of_reach else tests
    reports = ", ".join(map(_link, fault.reports))
    return f"| {fault.row} | {fault.what} | {reports} | {by} | {loaders} |\n"


def _link(report: str) -> str:
    return re.sub(r"(.*)#(\d+)", r"[\g<0>](https://github.com/\1/issues/\2)", report)


def _properties(found: list[Caught]) -> list[str]:
    """Return the properties that are broken: by most of the loaders first, then by fewest of all others."""
    here = Counter(test for one in found for test in one.tests)
    everywhere = Counter(test for loader in LOADERS.values() for test in loader.fails)
    ranked = sorted(here, key=lambda test: (-here[test], everywhere[test], test))
    return [test.removeprefix("test_") for test in ranked]


def matrix(rows: Mapping[str, list[Caught]]) -> list[str]:
    """Return a line for each row that was judged or is explained, and one that counts them."""
    shown = [fault for fault in FAULTS.values() if fault.row in rows or fault.out_of_reach]
    caught = sum(any(one.tests for one in found) for found in rows.values())
    explained = sum(bool(fault.out_of_reach) for fault in shown)
    absent = len(FAULTS) - len(shown)
    count = f"{caught} of {len(FAULTS)} rows caught, {explained} explained in docs/faults.md"
    count += f", {absent} whose loaders were not judged in this run" if absent else ""
    return [*(_entry(fault, rows.get(fault.row, [])) for fault in shown), count]


def _entry(fault: Fault, found: list[Caught]) -> str:
    if fault.out_of_reach:
        text = textwrap.shorten(f"out of reach: {fault.out_of_reach}", WIDTH - 5, placeholder=" ...")
        return f"{fault.row:<4} {text}"
    by = _cut(_properties(found), TESTS_WIDTH) or "NOT CAUGHT"
    loaders = _cut([one.loader for one in found], WIDTH - TESTS_WIDTH - 6)
    return f"{fault.row:<4} {by:<{TESTS_WIDTH}} {loaders}".rstrip()


def _cut(names: list[str], width: int) -> str:
    """Return as many names as there is room for, and how many more there are."""
    for count in range(len(names), 0, -1):
        more = f" +{len(names) - count}" if count < len(names) else ""
        text = ", ".join(names[:count]) + more
        if len(text) <= width:
            return text
    return textwrap.shorten(" ".join(names[:1]), width)


if __name__ == "__main__":
    PAGE.write_text(page(named()), encoding="utf-8")
