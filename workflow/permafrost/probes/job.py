"""What a probe is told to do: made and checked once, where its command reads its arguments."""

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
    kind : of the probe (`kinds.KINDS`).
    dataset, backbone, probe, seed : as configured; what is drawn follows from `derived_seed`.
    options : of the kind.
    over_dates : how features of several dates become those of a sample; None where samples are single images.
    features : fingerprint of the feature stores; of a probe that runs the backbone itself, that of the backbone
        and of what it is fed.
    stores : what is read, by split: train, val, test.
    output : table of predictions to write, with this `fingerprint`.
    device, memory : how to run; no part of the identity of the result. `memory` is bytes that train and validation
        may each fill, None a share of what is free. What does not fit is streamed.
    second_output : what is written beside the table, where the options or the kind ask for it.
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

    @classmethod
    def of(cls, spec: dict, options: type[Options], **how) -> Self:
        """The job with this spec; `how` are the other attributes.

        Raises
        ------
        PermafrostError : an option that the kind does not have, or one that is missing.
        """
        values = dict(spec["options"])
        kind, where = values.pop("kind"), f"options of {spec['probe']}"
        inputs = spec["inputs"]
        reduction = over_dates(values)
        for name in OF_DATES:
            values.pop(name, None)
        return cls(
            kind=kind,
            over_dates=reduction,
            **{name: spec[name] for name in ("dataset", "backbone", "probe", "seed")},
            options=read(options, values, where=where),
            features=inputs["backbone"] if "backbone" in inputs else inputs["features"],
            **how,
        )

    @property
    def where(self) -> str:
        """How the job is called in errors and logs."""
        return f"{self.probe} on {self.dataset}, backbone {self.backbone}"

    @property
    def derived_seed(self) -> int:
        return derive_seed(self.dataset, self.backbone, self.probe, self.seed)

    @property
    def recorded_options(self) -> dict:
        """The options as they are configured; JSON-able."""
        options = {"kind": self.kind, **asdict(self.options)}
        if self.over_dates is not None:
            options |= self.over_dates.as_options()
        return options


@dataclass(frozen=True, kw_only=True)
class ImageProbeJob[Options: DataclassInstance](ProbeJob[Options]):
    """A probe that runs the backbone itself, over image stores.

    Attributes
    ----------
    images : fingerprint of the image stores.
    card : the dataset's card.
    extraction : spec of an extraction that feeds the backbone in the same way.
    threads : of the CPU; None: as many as there are.
    """

    images: str
    card: Path
    extraction: dict
    threads: int | None = None

    @classmethod
    def of(cls, spec: dict, options: type[Options], **how) -> Self:
        return super().of(spec, options, images=spec["inputs"]["images"], extraction=spec, **how)
