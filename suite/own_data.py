"""A loader over its own data: what it is asked, and which tests apply. Needs no torch."""

from __future__ import annotations

from dataclasses import dataclass

from loaderproof.loaders.contract import Description, Request

# The data of scenarios where no truth is given: what the loader itself delivered first.
RECORDED = "own"
# An epoch of real data may take many times what one over a small probe takes.
PATIENCE = 10
BATCH_SIZE = 64
# Several batches are needed to see anything of their order.
BATCHES = 4

# The one test that fails if samples look different in each pass; all others say nothing then.
REPORTS_UNSTABLE = "test_second_epoch_is_complete"

NEEDS_SOURCE = "it takes data that the suite makes, and this loader reads its own"
NEEDS_TRUTH = (
    "without the truth the loader is compared with its own first pass alone;"
    " name the truth with --loader-data object:FILE.py:NAME"
)
# Tests that say something of any data. All others take samples, files or faults that the suite makes.
FITTING = frozenset(
    {
        "test_another_seed_gives_another_order",
        "test_asking_for_the_state_starts_nothing",
        "test_batch_sizes",
        "test_batches_arrive_as_handed_out",
        "test_batches_are_finished_when_handed_out",
        "test_batches_are_writable_and_owned",
        "test_batches_hold_no_more_than_they_show",
        "test_batches_stay_as_handed_out",
        "test_closing_raises_nothing",
        "test_device_batches_are_ready",
        "test_drop_last",
        "test_dtypes",
        "test_epochs_after_a_resumed_one_are_complete",
        "test_every_epoch_has_its_own_order",
        "test_every_pass_ends",
        "test_every_rank_reaches_the_end",
        "test_every_sample_of_the_data_once",
        "test_every_sample_once",
        "test_exhausted_iterator_stays_exhausted",
        "test_global_random_state_is_untouched",
        "test_interpreter_can_end_in_mid_epoch",
        "test_killed_worker_is_noticed",
        "test_labels_belong_to_their_samples",
        "test_len_counts_batches",
        "test_len_counts_the_batches_of_a_rank",
        "test_loaders_do_not_disturb_each_other",
        "test_memory_is_given_back",
        "test_new_pass_after_a_break_is_complete",
        "test_nothing_is_left_behind",
        "test_passes_do_not_disturb_each_other",
        "test_random_draws_go_on_after_resuming",
        "test_range",
        "test_ranks_are_complete_together",
        "test_ranks_are_disjoint",
        "test_ranks_cover_the_data_together",
        "test_ranks_drop_less_than_a_batch",
        "test_ranks_have_equal_shares",
        "test_ranks_keep_the_order_of_the_source",
        "test_ranks_shuffle_with_one_seed",
        "test_resumes_at_the_end_of_an_epoch",
        "test_resumes_in_a_fresh_process",
        "test_resumes_in_a_used_loader_or_refuses",
        "test_resumes_on_every_rank",
        "test_resumes_the_rest_of_the_epoch",
        "test_resumes_twice_in_a_row",
        "test_same_seed_gives_the_same_orders",
        "test_second_epoch_is_complete",
        "test_set_epoch_gives_the_order_of_that_epoch",
        "test_shapes",
        "test_shuffled_order_differs_from_source_order",
        "test_shuffling_moves_samples_between_ranks",
        "test_split_does_not_depend_on_who_asks_first",
        "test_state_can_be_taken_at_any_time",
        "test_state_fits_another_number_of_workers_or_is_refused",
        "test_state_fits_another_world_size_or_is_refused",
        "test_state_is_plain_data",
        "test_state_stays_as_it_was_taken",
        "test_taking_the_state_disturbs_nothing",
        "test_train_and_test_are_disjoint",
        "test_unshuffled_order_is_source_order",
        "test_workers_can_be_spawned",
        "test_workers_change_no_content",
        "test_workers_start_beside_a_busy_thread",
    }
)
FITTING_WITH_TRUTH = frozenset({"test_values", "test_layout"})
# They say what a loader costs, whatever it gives.
MEASURING = frozenset(
    {
        "test_loading",
        "test_memory",
        "test_stacks",
        "test_stages",
        "test_trace",
        "test_training",
        "test_tune",
    }
)


@dataclass(frozen=True)
class Facts:
    """What is known of own data.

    Attributes:
        count: samples in the truth, or in the first pass.
        splits: that there are: of the truth, or that the loader can be asked for.
        fresh, again: samples of the beginning of a second pass, and how many of them were in the first; both 0
            where there is a truth.
        has_ids: whether the batches of the first pass carried ids.
    """

    count: int
    splits: tuple[str, ...]
    fresh: int = 0
    again: int = 0
    has_ids: bool = False

    @property
    def stable(self) -> bool:
        """Tell whether a sample looks the same in each pass, so that it can be found again."""
        # Of a loader that only loses or repeats samples most are found.
        return self.fresh == 0 or self.again > self.fresh // 10


def truth_of(description: Description, data: str, default: str) -> str | None:
    """Return the data of scenarios for a loader over its own data, or None for all other loaders."""
    if not description.own_data:
        return None
    return RECORDED if data == default else data


def why_not(truth: str | None, test: str) -> str | None:
    """Return why a test does not apply, or None.

    Args:
        truth: as `truth_of` returned it.
        test: its name.
    """
    if truth is None or test in FITTING | MEASURING:
        return None
    if test not in FITTING_WITH_TRUTH:
        return NEEDS_SOURCE
    return NEEDS_TRUTH if truth == RECORDED else None


def batch_size(description: Description, count: int) -> int:
    """Return how many samples to ask for: several batches with a rest, if the loader heeds the size."""
    if description.batch_size:
        return description.batch_size
    most = max(1, min(BATCH_SIZE, count // BATCHES))
    return next((size for size in range(most, 1, -1) if count % size > 1), most)


def epochs(request: Request) -> int:
    """Return how many epochs tell what there is to know: of random orders three, to compare them."""
    return 3 if request.shuffle and not request.drop_last else 2


def plainest(request: Request) -> Request:
    """Return the plainest request of a split and variant, for the pass that all others are compared with."""
    return Request(split=request.split, batch_size=request.batch_size, options=request.options)
