"""Names of entries and folders: what every door of the product refuses."""

from __future__ import annotations

import pytest
from permafrost.core.names import is_name, results_refusal

BAD = [
    "",
    "a" * 300,
    "r{x}",
    "a/b",
    "..",
    ".a",
    "-a",
    "a ",
    " a",
    "a\n",
    "A",
    "ab" * 20,
    "x" + "-" * 20,
    "1" * 20,
    "caf\u00e9",
    "cafe\u0301",
    "a__b",
    "_a",
    "a_",
    "con",
    "nul",
    "com1",
    "lpt9",
    "a*",
    "a:b",
    "\u0661",
    3,
    None,
]


@pytest.mark.parametrize("name", BAD)
def test_a_name_that_is_unsafe_in_paths_is_none(name):
    assert not is_name(name)


@pytest.mark.parametrize(
    "name", ["a", "7", "resnet50-imagenet", "a_b-c", "console", "com", "nul-1", "a" * 19, "a1" * 9]
)
def test_other_names_are_names(name):
    assert is_name(name)


def test_snakemake_plans_the_longest_ends_that_repeat():
    """Its own rule for a wildcard without an end; refused names are those that it would refuse, too."""
    from snakemake.io import PeriodicityDetector

    periodic = PeriodicityDetector()
    for part in ("a", "ab", "a-b", "abcd"):
        for times in (19, 20, 21):
            text = part * times
            assert is_name(text) or len(text) > 80 or periodic.is_periodic(text)
            assert not (is_name(text) and periodic.is_periodic(text))


@pytest.mark.parametrize(
    "results",
    ["config", "CONFIG", "config/mine", "workflow", ".git", ".snakemake", ".snakemake/x", "data", "data/results",
     "envs", "profiles/x", "Snakefile", "docs", "tests", "run", ".", "..", "../x", "", "r{x}", "a b ", "a/ b", "-x",
     "con", "a" * 256, "a\\b", "a:b", "x\ny", "r$(touch X)", "cafe\u0301", None],
)  # fmt: skip
def test_folders_that_hold_something_else_are_no_results(results):
    assert results_refusal(results)


@pytest.mark.parametrize(
    "results", ["results", "results/mine", "out", "pr\u00f8jekt", "my results"]
)
def test_other_folders_are_results(results):
    assert results_refusal(results) is None
