"""The job of a probe, made and checked when its command parses its arguments."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from permafrost.core.identity import derive_seed
from permafrost.core.option_models import read
from permafrost.features.dates import OF_DATES, OverDates, over_dates

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


@dataclass(frozen=True, kw_only=True)
class ProbeJob[Options: DataclassInstance]:
    """A probe of a backbone on a dataset.

    Attributes
    ----------
    kind : kind of the probe (`kinds.KINDS`).
    dataset, backbone, probe, seed : as configured; random numbers use `derived_seed`.
    options : options of the kind.
    over_dates : how features of several dates are combined into those of a sample; None for single images.
    features : fingerprint of the feature stores; for a probe that runs the backbone itself, fingerprint of the
        backbone and its input.
    stores : paths of the stores by split: train, val, test.
    output : table of predictions to write, with this `fingerprint`.
    device, memory : how to run; not part of the result's fingerprint. `memory` is the number of bytes that train,
        validation and the heads of several learning rates may each fill, None a share of free memory. Larger splits are
        streamed.
    second_output : second output of the probe, if the options or the kind request one.
    drawn_as : the backbone that `backbone` is derived from, whose random numbers it has, so that a difference
        between the two is not one of draws; None: it is not derived.
    drawn_on : the same of `dataset`, if its test images are those of another, made harder.
    """

    kind: str
    dataset: str
    backbone: str
    probe: str
    seed: int
    options: Options
    features: str
    stores: dict[str, Path]
    output: Path
    fingerprint: str
    device: str = "auto"
    memory: int | None = None
    second_output: Path | None = None
    over_dates: OverDates | None = None
    drawn_as: str | None = None
    drawn_on: str | None = None

    @classmethod
    def of(cls, spec: dict, options: type[Options], **how) -> Self:
        """The job with this spec; `how` are the other attributes.

        Raises
        ------
        PermafrostError : an unknown or missing option.
        """
        values = dict(spec["options"])
        kind, where = values.pop("kind"), f"options of {spec['probe']}"
        inputs = spec["inputs"]
        reduction = over_dates(values)
        for name in OF_DATES:
            values.pop(name, None)
        return cls(
            kind=kind,
            drawn_as=next(iter(spec.get("derived", ())), None),
            drawn_on=spec.get("drawn_on"),
            over_dates=reduction,
            **{name: spec[name] for name in ("dataset", "backbone", "probe", "seed")},
            options=read(options, values, where=where),
            features=inputs["backbone"] if "backbone" in inputs else inputs["features"],
            **how,
        )

    @property
    def where(self) -> str:
        """Name of the job in errors and logs."""
        return f"{self.probe} on {self.dataset}, backbone {self.backbone}"

    @property
    def derived_seed(self) -> int:
        """Seed of random numbers, from dataset, backbone, probe and seed."""
        return self.seed_from("dataset", "backbone", "probe", "seed")

    def seed_from(self, *names: str) -> int:
        """Seed of random numbers from these attributes, those of `drawn_as` and `drawn_on` if there are any."""
        drawn = {
            "backbone": self.drawn_as or self.backbone,
            "dataset": self.drawn_on or self.dataset,
        }
        return derive_seed(*(drawn.get(name, getattr(self, name)) for name in names))

    @property
    def recorded_options(self) -> dict:
        """The options as configured; JSON-able."""
        options = {"kind": self.kind, **asdict(self.options)}
        if self.over_dates is not None:
            options |= self.over_dates.as_options()
        return options


@dataclass(frozen=True, kw_only=True)
class ImageProbeJob[Options: DataclassInstance](ProbeJob[Options]):
    """A probe that runs the backbone itself, on image stores.

    Attributes
    ----------
    images : fingerprint of the image stores.
    card : the dataset's card.
    extraction : spec of an extraction with the same backbone input.
    threads : number of CPU threads; None: all.
    """

    images: str
    card: Path
    extraction: dict
    threads: int | None = None

    @classmethod
    def of(cls, spec: dict, options: type[Options], **how) -> Self:
        return super().of(spec, options, images=spec["inputs"]["images"], extraction=spec, **how)
