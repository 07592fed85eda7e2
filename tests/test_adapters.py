"""What the built-in adapters deliver."""

import json
import re
import runpy
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import psutil
import pytest
import torch

from loaderproof.loaders import Description, Promise, Request, Uneven, registry
from loaderproof.loaders._epochs import ClosingLoader
from loaderproof.loaders._requests import check, number_of_batches, options_of, share
from loaderproof.loaders.memmap import Memmap
from loaderproof.loaders.resident import Options as ResidentOptions
from loaderproof.loaders.sources.probe import probe
from loaderproof.loaders.tfds_article import Stream
from loaderproof.loaders.torch_dataloader import TorchDataLoader, by_torchvision, to_tensor

# Tests are no package, so that what two of them share is not imported but run.
SCRIPT = Path(__file__).with_name("adapter_facts.py")
adapter_facts = SimpleNamespace(**runpy.run_path(str(SCRIPT)))
NAMES = list(registry.BUILTIN)
AUGMENTING = ["torch_dataloader", "tfds_numpy", "tf_slices"]
RIGHT = [name for name in NAMES if name != "tfds_article"]
README = Path(__file__).parent.parent / "loaders" / "README.md"


@pytest.fixture(scope="module")
def observed(tmp_path_factory):
    """Everything that adapter_facts.py tells, and what it printed."""
    output = tmp_path_factory.mktemp("facts") / "facts.json"
    done = subprocess.run(
        [sys.executable, SCRIPT, output], capture_output=True, text=True, check=False, timeout=300
    )
    assert 0 == done.returncode, done.stderr
    return {**json.loads(output.read_text()), "printed": done.stdout + done.stderr}


@pytest.fixture
def facts(observed, request):
    """What is told of the adapter that a test is parametrised with, by variant and workers."""
    found = observed["adapters"][request.param]
    assert "error" not in found, found["error"]
    return found


@pytest.mark.parametrize("facts", RIGHT, indirect=True)
def test_an_epoch_is_the_source(facts):
    """Unshuffled epochs hold the source's samples in its order, exact, and as many as were asked for."""
    for setup, told in facts.items():
        for (count, batch_size, drop_last), seen in zip(
            adapter_facts.IN_ORDER, told["in_order"], strict=True
        ):
            sizes = [min(batch_size, count - start) for start in range(0, count, batch_size)]
            sizes = [size for size in sizes if size == batch_size or not drop_last]
            for epoch in seen["epochs"]:
                assert (setup, sizes) == (setup, epoch["sizes"])
                assert (setup, list(range(sum(sizes)))) == (setup, epoch["order"])
                assert (setup, True) == (setup, epoch["labels"])
                assert epoch["error"] <= 1e-7
            assert (setup, len(sizes)) == (setup, seen["len"])


@pytest.mark.parametrize("facts", NAMES, indirect=True)
def test_batches_are_contiguous_floats_and_long_labels(facts):
    """Images are contiguous float32, labels int64."""
    for told in facts.values():
        for seen in told["in_order"]:
            for kind in seen["epochs"][0]["kinds"]:
                assert ["torch.float32", "torch.int64", True] == kind


@pytest.mark.parametrize("facts", RIGHT, indirect=True)
@pytest.mark.parametrize("size", ["small", "wide"])
def test_every_shuffled_epoch_is_a_new_permutation(facts, size):
    """Every shuffled epoch holds every sample once, in an order of its own."""
    for told in facts.values():
        orders = told["shuffled"][size]
        everything = list(range(adapter_facts.SHUFFLED[size][0]))
        assert [everything] * 3 == [sorted(order) for order in orders]
        assert 4 == len({tuple(order) for order in [*orders, everything]})


@pytest.mark.parametrize("facts", NAMES, indirect=True)
def test_the_seed_decides_every_order(facts):
    """One seed gives the same orders again, another seed others."""
    for told in facts.values():
        assert told["shuffled"]["small"] == told["again"]
        assert told["again"][0] != told["other_seed"][0]


@pytest.mark.parametrize("facts", RIGHT, indirect=True)
def test_the_order_does_not_depend_on_how_an_earlier_epoch_ended(facts):
    """After an epoch that was left early, the next ones come in the same orders as after a whole one."""
    for told in facts.values():
        assert told["shuffled"]["small"][1:] == told["after_break"]


def test_workers_change_no_order(observed):
    """A DataLoader gives the same orders with workers, with persistent ones, and without."""
    told = observed["adapters"]["torch_dataloader"].values()

    assert 1 == len({json.dumps(setup["shuffled"]) for setup in told})


@pytest.mark.parametrize("facts", NAMES, indirect=True)
def test_senseless_requests_are_refused(facts):
    """Every adapter refuses sizes and ranks that cannot be, and names the one that cannot."""
    for told in facts.values():
        for value, refusal in zip(adapter_facts.SENSELESS, told["refused"], strict=True):
            assert refusal.startswith(f"{value}is too ")


@pytest.mark.parametrize("facts", RIGHT, indirect=True)
def test_ranks_have_equal_parts_of_one_order(facts):
    """Dealt out in turns, the ranks' samples are the order of a loader without ranks."""
    world = adapter_facts.WORLD
    for told in facts.values():
        ranks = told["ranks"][:world]
        for epoch in range(2):
            orders = [rank["orders"][epoch] for rank in ranks]
            dealt = [order[turn] for turn in range(8) for order in orders if turn < len(order)]
            whole = told["shuffled"]["small"][epoch]
            assert whole == dealt[:23]
            assert whole[: len(dealt) - 23] == dealt[23:]


@pytest.mark.parametrize("facts", RIGHT, indirect=True)
def test_a_rank_sees_other_samples_in_each_epoch(facts):
    """Shuffling comes before sharing out."""
    for told in facts.values():
        assert all(set(rank["orders"][0]) != set(rank["orders"][1]) for rank in told["ranks"])


@pytest.mark.parametrize("facts", RIGHT, indirect=True)
def test_the_length_is_that_of_the_rank(facts):
    """len() counts the rank's own batches, the last one left out if it is to be dropped."""
    for told in facts.values():
        for place, rank in enumerate(told["ranks"]):
            dropping = place >= adapter_facts.WORLD
            assert [rank["len"]] * 2 == [len(sizes) for sizes in rank["sizes"]]
            assert all(size == 4 for sizes in rank["sizes"] for size in (sizes if dropping else sizes[:-1]))


@pytest.mark.parametrize("name", RIGHT)
def test_ranks_are_as_uneven_as_declared(observed, name):
    """Parts are padded, or exact, as the description says."""
    description = registry.load(name).description
    for told in observed["adapters"][name].values():
        for rank, seen in enumerate(told["ranks"][: adapter_facts.WORLD]):
            request = Request(rank=rank, world_size=adapter_facts.WORLD)
            assert [share(23, request, description.uneven)] * 2 == [len(order) for order in seen["orders"]]


@pytest.mark.parametrize("facts", AUGMENTING, indirect=True)
def test_no_two_draws_are_alike(facts):
    """Each sample has a draw of its own in each epoch, for each seed, and in each family."""
    for told in facts.values():
        runs = told["augmented"]["runs"]
        epochs = [*runs["plain"], *runs["other_seed"]]
        draws = [value for epoch in epochs for name, one in epoch.items() if name != "id" for value in one]
        assert all(list(range(23)) == epoch["id"] for epoch in epochs)
        assert len(draws) == len(set(draws)) == 4 * 23 * (len(epochs[0]) - 1)


@pytest.mark.parametrize("facts", AUGMENTING, indirect=True)
def test_draws_repeat_with_the_seed(facts):
    """The same seed draws the same for the same samples."""
    for told in facts.values():
        assert told["augmented"]["runs"]["plain"] == told["augmented"]["runs"]["again"]


def test_workers_change_no_draw(observed):
    """A DataLoader draws the same with workers, with persistent ones, and without."""
    told = observed["adapters"]["torch_dataloader"].values()

    assert 1 == len({json.dumps(setup["augmented"]["runs"]) for setup in told})


@pytest.mark.parametrize("facts", AUGMENTING, indirect=True)
def test_ranks_draw_apart(facts):
    """No draw of one rank is one of the other's, not even for a sample that both get."""
    for told in facts.values():
        ranks = [told["augmented"]["runs"][f"rank {rank}"] for rank in range(2)]
        for name in ranks[0][0].keys() - {"id"}:
            one, other = ({value for epoch in rank for value in epoch[name]} for rank in ranks)
            assert (set(), True) == (one & other, len(one) >= 22)


@pytest.mark.parametrize("facts", AUGMENTING, indirect=True)
def test_augmentation_changes_a_sample_anew_each_time(facts):
    """Eight epochs change a sample in eight ways, within [0, 1], and never more and more."""
    for told in facts.values():
        seen = told["augmented"]
        assert (8, True, True) == (seen["versions"], 0 <= seen["range"][0], seen["range"][1] <= 1)
        assert seen["change"] < 0.25


def test_tuning_is_asked_for(observed):
    """tf.data's tuning thread runs for the variant that asks for it alone."""
    tuned = observed["tuned"]

    assert {"tf_slices", "tfds_numpy ", "tfds_numpy autotune"} <= tuned.keys()
    assert ["tfds_numpy autotune"] == [name for name, on in tuned.items() if on]


def test_a_small_buffer_shuffles_within_it(observed):
    """The variant small_buffer takes each sample from those that the buffer can hold by then."""
    told = observed["adapters"]["tfds_numpy"]

    def reach(setup: str) -> int:
        return max(place - step for step, place in enumerate(told[setup]["shuffled"]["wide"][0]))

    assert reach("small_buffer/0") <= 256
    assert reach("/0") > 256


@pytest.mark.parametrize("facts", NAMES, indirect=True)
def test_nothing_is_left_of_a_closed_loader(facts):
    """A loader that is closed amid an epoch leaves no process."""
    assert {setup: [] for setup in facts} == {setup: told["left"] for setup, told in facts.items()}


@pytest.mark.parametrize("facts", NAMES, indirect=True)
def test_global_generators_stay_as_they_are(facts):
    """No adapter draws from the global generators of random, NumPy and torch."""
    assert all(told["randomness"] for told in facts.values())


def test_tensorflow_is_imported_without_harm(observed):
    """TensorFlow comes after triton, gets no GPU, and moves no generator by its import."""
    assert {"gpus": 0, "randomness": True, "triton_is_first": True} == observed["process"]


def test_tensorflow_is_silent(observed):
    """Neither TensorFlow nor TFDS prints while it prepares and delivers."""
    assert "" == observed["printed"]


def test_the_article_counts_samples(observed):
    """The article's object has the number of samples for its length."""
    told = observed["adapters"]["tfds_article"]["/0"]

    assert [count for count, _, _ in adapter_facts.IN_ORDER] == [seen["len"] for seen in told["in_order"]]


def test_the_article_blurs_epochs(observed):
    """The article's first epoch repeats samples and lacks others: about 23 % of them."""
    first = observed["adapters"]["tfds_article"]["/0"]["shuffled"]["wide"][0]

    # 1 - 0.767 for 60,000 samples; here passes are 10 % longer than the data, and N is 1,000.
    assert 0.15 < 1 - len(set(first)) / 1000 < 0.28


def test_an_article_pass_ends_once_more_samples_came():
    """A pass is left after more samples than there are; the last gets the rest, then there is nothing."""
    sizes = [4] * 57 + [2]  # ten times 23 samples, in batches of 4
    stream = Stream(((torch.zeros(size), torch.zeros(size)) for size in sizes), samples=23)
    passes = [sum(len(images) for images, _ in stream) for _ in range(12)]

    assert [24] * 9 + [14, 0, 0] == passes


def test_an_article_pass_goes_on_where_the_last_was_left():
    """After a break the next pass starts with the next batch of the stream."""
    stream = Stream(((torch.full((4,), place), torch.zeros(4)) for place in range(10)), samples=7)
    for _ in stream:
        break

    assert [1, 2] == [int(images[0]) for images, _ in stream]


def test_article_passes_hold_what_the_article_says():
    """Of 60,000 samples a pass of batches of 64 holds 60,032, and the tenth what is left, 59,712."""
    sizes = [64] * (600_000 // 64)
    stream = Stream(((range(size), None) for size in sizes), samples=60_000)
    passes = [sum(len(images) for images, _ in stream) for _ in range(10)]

    assert [60_032] * 9 + [59_712] == passes


def test_the_article_declares_what_is_wrong_with_it():
    """Deviations of the article's mixture tell a reason and where it is explained."""
    deviations = registry.load("tfds_article").description.deviations

    assert {"test_every_sample_once", "test_second_epoch_is_complete", "test_len_counts_batches"} <= {
        deviation.test for deviation in deviations
    }
    assert all(deviation.reason and deviation.link for deviation in deviations)


def test_tfds_adapters_share_what_is_written():
    """The three adapters over TFDS have one format, which no other has."""
    forms = {name: registry.load(name).description.on_disk for name in NAMES}

    assert {"tfds_numpy", "tfds_article", "tfds_builder"} == {
        name for name, form in forms.items() if form == forms["tfds_numpy"]
    }


@pytest.mark.parametrize("name", NAMES)
def test_descriptions_are_complete(name):
    """Every built-in adapter is called as in the registry, has a default variant, and says what it is."""
    description = registry.load(name).description

    assert isinstance(description, Description)
    assert (name, True, True) == (description.name, "" in description.variants, bool(description.summary))
    assert "torch" in description.requires
    assert ("tf" if "tensorflow" in description.requires else None) == description.extra


def test_every_option_of_a_variant_exists(tmp_path):
    """An option that an adapter does not know is refused, with those that it knows."""
    request = Request(options={"on_devise": True})

    with pytest.raises(ValueError, match="no option 'on_devise' here; there is on_device"):
        options_of(ResidentOptions, request)


@pytest.mark.parametrize(
    ("asked", "complaint"),
    [
        ({"batch_size": 0}, "batch_size=0 is too small: the least is 1"),
        ({"num_workers": -1}, "num_workers=-1 is too small: the least is 0"),
        ({"world_size": 0}, "world_size=0 is too small: the least is 1"),
        ({"rank": -1}, "rank=-1 is too small: the least is 0"),
        ({"rank": 2, "world_size": 2}, "rank=2 is too large for world_size=2: ranks are 0 to 1"),
    ],
)
def test_senseless_numbers_are_refused(asked, complaint):
    """What no loader can do is refused, with what can be done."""
    with pytest.raises(ValueError, match=complaint):
        check(Request(**asked))


@pytest.mark.parametrize(
    ("uneven", "parts"),
    [(Uneven.EXACT, [8, 8, 7]), (Uneven.PADDED, [8, 8, 8]), (Uneven.DROPPED, [7, 7, 7])],
)
def test_parts_of_ranks(uneven, parts):
    """Of 23 samples three ranks get as many as the way to share says; of 21 all get 7."""
    requests = [Request(rank=rank, world_size=3) for rank in range(3)]

    assert parts == [share(23, request, uneven) for request in requests]
    assert [7, 7, 7] == [share(21, request, uneven) for request in requests]


@pytest.mark.parametrize("name", ["torch_dataloader", "resident", "memmap"])
def test_a_typo_in_an_option_is_refused(name, tmp_path):
    """An adapter refuses an option that it does not have."""
    with pytest.raises(ValueError, match="no option 'typo'"):
        registry.load(name).open(probe(2), tmp_path, Request(options={"typo": 1}))


@pytest.mark.parametrize(
    ("samples", "batch_size", "drop_last", "batches"),
    [
        (0, 4, False, 0),
        (1, 4, False, 1),
        (1, 4, True, 0),
        (8, 4, False, 2),
        (8, 4, True, 2),
        (9, 4, False, 3),
        (9, 4, True, 2),
    ],
)
def test_number_of_batches(samples, batch_size, drop_last, batches):
    """The rest makes a batch of its own, unless it is dropped."""
    request = Request(batch_size=batch_size, drop_last=drop_last)

    assert batches == number_of_batches(samples, request)


@pytest.mark.parametrize("shape", [(9, 14, 1), (12, 20, 3)])
def test_own_conversion_is_torchvisions(shape):
    """An image becomes the same tensor with torchvision and without."""
    pytest.importorskip("torchvision")
    image, _ = probe(1, shape=shape)[0]

    assert torch.equal(by_torchvision(image), to_tensor(image))


def test_a_read_only_source_is_read_without_warning(recwarn):
    """A source whose images are read-only, like a mapped file, is converted without a complaint."""
    image, _ = probe(1)[0]
    image.setflags(write=False)
    torch.set_warn_always(True)
    try:
        to_tensor(image).fill_(0)
    finally:
        torch.set_warn_always(False)

    assert [] == list(recwarn)


def test_persistent_workers_outlive_an_epoch_but_not_the_loader():
    """Persistent workers stay the same over epochs, and end when the loader is closed."""
    request = Request(batch_size=4, num_workers=2, options={"persistent_workers": True})
    others = set(psutil.Process().children())
    loader = TorchDataLoader().open(probe(23), Path(), request)
    workers = []
    for _ in range(2):
        list(loader)
        workers.append(set(psutil.Process().children()) - others)
    loader.close()

    assert 2 == len(workers[0] & workers[1])
    assert set() == set(psutil.Process().children()) - others


def test_persistent_workers_serve_one_pass():
    """A pass whose workers another took says so, instead of ending early; the other one is whole."""
    request = Request(batch_size=4, num_workers=2, options={"persistent_workers": True})
    loader = TorchDataLoader().open(probe(23), Path(), request)
    earlier, later = iter(loader), iter(loader)
    next(earlier), next(later)

    with pytest.raises(RuntimeError, match="another pass has begun"):
        list(earlier)
    assert 5 == len(list(later))
    loader.close()


@pytest.mark.parametrize("workers", [0, 1])
def test_stop_iteration_in_a_sample_is_an_error(workers):
    """A sample that raises StopIteration ends no epoch."""

    class Stopping(type(probe(1))):
        def __getitem__(self, index):
            if index == 5:
                raise StopIteration("poison")
            return super().__getitem__(index)

    source = probe(23)
    source.__class__ = Stopping
    loader = TorchDataLoader().open(source, Path(), Request(batch_size=4, num_workers=workers))

    with pytest.raises(RuntimeError, match="sample 5 raised StopIteration: poison"):
        list(loader)
    loader.close()


def test_closing_ends_epochs_that_go_on():
    """Closing a loader ends every epoch that was begun, even if somebody still holds it."""
    ended = []

    def batches():
        try:
            yield from range(5)
        finally:
            ended.append(True)

    class Batches:
        __iter__ = staticmethod(batches)

    loader = ClosingLoader(Batches(), 5, Request(batch_size=1))
    first, second = iter(loader), iter(loader)
    assert [0, 0, 1] == [next(first), next(second), next(second)]
    loader.close()

    assert [True, True] == ended
    assert [[], []] == [list(first), list(second)]


def test_memmap_keeps_the_bytes_of_the_source(tmp_path):
    """The .npy and the .pt file of memmap hold the source's own arrays."""
    source = probe(23)
    Memmap().prepare(source, tmp_path)
    images, labels = source.arrays()
    both = torch.load(tmp_path / "samples.pt", weights_only=True)

    for seen in (np.load(tmp_path / "images.npy"), both["images"].numpy()):
        assert np.array_equal(images, seen)
    for seen in (np.load(tmp_path / "labels.npy"), both["labels"].numpy()):
        assert np.array_equal(labels, seen)


def written(text: str, folder: Path) -> None:
    """Write the files that a tutorial shows; the first line of each is its name."""
    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        (folder / block.splitlines()[0].removeprefix("# ")).write_text(block)


def asked(text: str) -> list[str]:
    """Return the loaders that a tutorial's commands ask for."""
    return re.findall(r"^\$ .*--loader (\S+\.py:\S+)", text, re.MULTILINE)


def test_the_tutorial_asks_for_each_of_its_files(tmp_path):
    """Every file of "add a loader" is tried by one of its commands."""
    text = README.read_text()
    written(text, tmp_path)

    assert [path.name for path in sorted(tmp_path.iterdir())] == sorted(
        spec.partition(":")[0] for spec in asked(text)
    )


@pytest.mark.parametrize("spec", asked(README.read_text()))
def test_the_tutorial_works(spec, tmp_path, monkeypatch):
    """Every loader of "add a loader" delivers the source, in order and shuffled, as it promises."""
    written(README.read_text(), tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    source = probe(23)
    adapter = registry.load(f"{tmp_path}/{spec}")
    adapter.prepare(source, tmp_path)
    for variant in adapter.description.variants.values():
        plain = adapter.open(source, tmp_path, Request(batch_size=4, options=variant.options))
        shuffled = adapter.open(
            source, tmp_path, Request(batch_size=4, shuffle=True, options=variant.options)
        )
        orders = [adapter_facts.observed(source, shuffled)["order"] for _ in range(2)]
        seen = adapter_facts.observed(source, plain)

        assert (list(range(23)), True, 6) == (seen["order"], seen["labels"], len(plain))
        assert [["torch.float32", "torch.int64"]] * 6 == [kind[:2] for kind in seen["kinds"]]
        assert [list(range(23))] * 2 == [sorted(order) for order in orders]
        assert all(one != other for one, other in pairwise([*orders, list(range(23))]))
    assert {Promise.LENGTH, Promise.SHUFFLE, Promise.RESHUFFLING} <= adapter.description.promises
