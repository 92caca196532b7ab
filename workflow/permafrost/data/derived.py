"""Derived datasets: images of others, divided anew into train, validation and test."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from annotated_types import Interval

from permafrost.core.errors import PermafrostError
from permafrost.core.options import (
    Above0,
    AtLeast2,
    Different,
    LeftOut,
    Name,
    Natural,
    Options,
    Positive,
    Share,
    Text,
    TwoOrMore,
)

#: what makes a fold, if each of its values is one: the folds have no number
VALUES = ("season", "year", "latitude")
#: height of a band of latitude
DEGREES = 15
#: key of an entry that is one of several: the name under ``derived_datasets`` of shares, or of a transfer
PART_OF = "part_of"
#: severity of a degradation; 0 leaves images as they are
Severity = Annotated[int, Interval(ge=0, le=5)]
Severities = Literal["all"] | Severity | Different[Severity]
#: common names of the bands of a colour image
RGB = ("red", "green", "blue")
#: degradations that move what is labelled; without severities; of series
MOVING, ONLY_RGB, DATES_DROPPED = ("shift", "rotation"), "only_rgb", "dates_dropped"

#: warning beside scores: a backbone reads none of the bands that are degraded
UNCHANGED = "reads_no_changed_band"

#: as a degradation: test images show other bands than those that were trained on
OTHER_BANDS = "other_bands"


@dataclass(frozen=True, kw_only=True)
class Folds(Options):
    """Folds of all images of a dataset. Each image is tested once, by a probe that is trained on other folds."""

    by: Literal["group", "image", "block", "season", "year", "latitude"] = "group"
    """What stays together: groups (images, if some have none), images, or square blocks on the ground, which are
    divided into k folds of about the same size and shares of classes; or what is one fold per value: season
    (meteorological, of the hemisphere), year, or band of latitude."""
    k: LeftOut[AtLeast2 | Literal["each"]] = None
    """Number of folds of groups, images and blocks; each: every group or block is a fold. Default is 5."""
    table: LeftOut[Text] = None
    """A CSV or parquet file with sample_id or group_id (sample_id may name whole images), and the column whose values
    are the folds, in place of by."""
    column: LeftOut[Text] = None
    """The column of table: region, sensor, …. Each of its values is a fold."""
    only: LeftOut[Different[Text]] = None
    """Values whose folds are tested (winter, 2019, 45 to 60° N, a group, or a value of column). Default is all."""
    block_km: LeftOut[Above0] = None
    """Side length of a block in kilometres."""
    degrees: LeftOut[Above0] = None
    """Height of a band of latitude. Default is 15."""
    buffer_km: LeftOut[Above0] = None
    """Images closer than this to a test image are left out of training and validation."""
    val: Share = 0.2
    """Share of the images of a fold that are not tested which is validation; whole groups if known."""
    repeats: Positive = 1
    """Times that groups, images or blocks are divided, each time at random. Intervals treat all answers to one
    image as one unit."""
    seed: Natural = 0
    """Random seed of the division."""

    @property
    def called(self) -> str:
        """What makes a fold, in a word."""
        return self.column or self.by

    @property
    def of_values(self) -> bool:
        """Whether each value is a fold, and the unit of intervals."""
        return self.column is not None or self.by in VALUES


@dataclass(frozen=True, kw_only=True)
class SharedClass(Options):
    """A class of train and test that unites classes of both."""

    train: Text | Different[Text]
    """Class or classes of the dataset that is trained on."""
    test: Text | Different[Text]
    """Class or classes of the dataset that is tested on."""


@dataclass(frozen=True, kw_only=True)
class Transfer(Options):
    """Train on each of these datasets and test on each. Each pair is a derived dataset NAME-TRAIN-to-TEST; so is each
    dataset with itself, which has the same classes."""

    of: TwoOrMore[Name]
    """The datasets."""
    classes: LeftOut[dict[str, dict[str, Text | Different[Text]]]] = None
    """A name -> dataset -> its class or classes. Images of other classes are left out. Default is the classes that
    all of them name alike."""


@dataclass(frozen=True, kw_only=True)
class Degradations(Options):
    """How test images are made harder: severities from 1 to 5 of each degradation, or all. Each is a derived dataset
    NAME-DEGRADATION-SEVERITY. Severity 0 leaves the images as they are. docs/harder-images.md has the formulas."""

    RULES = {"minProperties": 1}

    noise: LeftOut[Severities] = None
    """Normal noise with a standard deviation of 4 to 8 % of a band's range."""
    haze: LeftOut[Severities] = None
    """20 to 60 % of white in every pixel of optical bands."""
    clouds: LeftOut[Severities] = None
    """Clouds in optical bands, where Perlin noise exceeds 90 to 70 % of its range."""
    stripes: LeftOut[Severities] = None
    """2 to 6 black stripes at a random angle."""
    jpeg: LeftOut[Severities] = None
    """JPEG compression of quality 30 to 10."""
    resolution: LeftOut[Severities] = None
    """Averaged to 60 to 25 % of height and width, and back."""
    shift: LeftOut[Severities] = None
    """Moved by 15 to 35 pixels of 800, in height and in width."""
    rotation: LeftOut[Severities] = None
    """Rotated by 30 to 90 degrees."""
    bands_left_out: LeftOut[Severities] = None
    """1 to 5 sixths of the bands hold their mean of train, the same bands in all images."""
    only_rgb: LeftOut[Severities] = None
    """All bands but red, green and blue hold their mean of train; its only severity is 1."""
    dates_dropped: LeftOut[Severities] = None
    """10 to 90 % of the dates of a series are missing."""


@dataclass(frozen=True, kw_only=True)
class DerivedDataset(Options):
    """A dataset whose images are those of other datasets of the run: divided anew into folds, with a share of the
    training images, with harder test images, or trained on one dataset and tested on another. Features are read from
    theirs; those of harder images are computed."""

    RULES = {
        "oneOf": [
            {"required": ["of", "folds"]},
            {"required": ["of", "share"]},
            {"required": ["of", "harder"]},
            {"required": ["train", "test"]},
            {"required": ["transfer"]},
        ]
    }

    title: LeftOut[Text] = None
    """Name for tables and figures. Default is the entry's name."""
    of: LeftOut[Name] = None
    """The dataset whose images these are."""
    folds: LeftOut[Folds] = None
    share: LeftOut[Share | Different[Share]] = None
    """Share of the images of train, and of those of validation, that are kept; whole groups if known, else stratified
    by class. The test images are all of the dataset. Each of several shares is a derived dataset NAME-PERCENT, and
    the area under the curve of their scores is given."""
    harder: LeftOut[Degradations] = None
    seed: Natural = 0
    """Random seed of share, and of harder. The images of a smaller share are among those of a larger one."""
    train: LeftOut[Name] = None
    """The dataset whose train and validation images are used."""
    test: LeftOut[Name] = None
    """The dataset whose test images are used."""
    other_bands: LeftOut[bool] = None
    """For train and test: both have the same test images, in other bands or from another sensor. Backbones that take
    all bands are kept, and scores have the relative loss against the test images of train."""
    transfer: LeftOut[Transfer] = None
    classes: LeftOut[dict[str, Text | Different[Text] | SharedClass]] = None
    """For train and test: class of train -> class or classes of test; or a name -> classes of both. Images of other
    classes are left out. Default is the classes that both name alike."""


def origins_of(entry: dict) -> list[str]:
    """The datasets that an entry is derived from; empty for all other entries."""
    derived: dict[str, Any] = entry.get("derived") or {}
    return list(dict.fromkeys(derived[key] for key in ("of", "train", "test") if key in derived))


def in_folds(entry: dict) -> bool:
    """Whether an entry is derived and has folds."""
    return "folds" in (entry.get("derived") or {})


def harder_of(entry: Mapping) -> tuple[str, int] | None:
    """The degradation of a dataset's test images and its severity; None: they are those of a dataset."""
    harder = (entry.get("derived") or {}).get("harder")
    return None if harder is None else next(iter(harder.items()))


def loss_of(entry: Mapping) -> tuple[str, str, int] | None:
    """For a dataset with relative losses: the dataset whose score is the clean one, degradation and severity."""
    derived = entry.get("derived") or {}
    if derived.get(OTHER_BANDS):
        return derived["train"], OTHER_BANDS, 1
    harder = harder_of(entry)
    return None if harder is None else (derived["of"], *harder)


def is_optical(band: Mapping) -> bool:
    """Whether a band, as in a card, holds sunlight that the ground reflects."""
    return band["unit"] in (
        "uint8",
        "brightness",
        "digital_number",
        "reflectance",
    ) and not band.get("polarisation")


def check_folds(options: Folds, *, where: object) -> None:
    """Raise `PermafrostError` for options that no data could satisfy."""
    each, by = options.of_values, options.called
    wrong = None
    if (options.table is None) != (options.column is None):
        wrong = "table and column go together", "give both or neither"
    elif options.table is not None and options.by != "group":
        wrong = f"by: {options.by} has no effect with a table", "remove by, or table and column"
    elif each and options.k is not None:
        wrong = f"k has no effect by {by}: each {by} is a fold", "remove k"
    elif options.by == "image" and options.k == "each":
        wrong = "each image cannot be a fold", "give a number of folds"
    elif options.by == "block" and options.block_km is None:
        wrong = "folds by block need block_km", "give the side of a block in kilometres"
    elif options.by != "block" and options.block_km is not None:
        wrong = f"block_km has no effect by {options.by}", "remove it, or write by: block"
    elif options.by != "latitude" and options.degrees is not None:
        wrong = f"degrees has no effect by {options.by}", "remove it, or write by: latitude"
    elif options.repeats > 1 and (each or options.k == "each"):
        wrong = "the folds are the same in each repetition", "remove repeats"
    elif options.only is not None and not each and options.k != "each":
        wrong = "only names values, but folds are numbered", "remove only, or write k: each"
    if wrong:
        raise PermafrostError(wrong[0], where=f"{where}: folds", remedy=wrong[1])


def shared_classes(
    asked: dict | None, train: list[str], test: list[str]
) -> dict[str, tuple[list[str], list[str]]]:
    """Class -> the classes of train and of test that it unites, from the option ``classes`` and both lists.

    Those of the option are sorted: the JSON of a job keeps no order.
    """
    if asked is None:
        return {name: ([name], [name]) for name in train if name in test}
    found = {}
    for name, given in sorted(asked.items()):
        one, other = (given["train"], given["test"]) if isinstance(given, dict) else (name, given)
        found[name] = (_listed(one), _listed(other))
    return found


def _listed(names: str | list[str]) -> list[str]:
    return [names] if isinstance(names, str) else list(names)
