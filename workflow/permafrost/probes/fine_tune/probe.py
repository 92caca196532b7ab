"""The probe `fine_tune`: image stores in, test predictions of the fine-tuned and of the frozen backbone out."""

from __future__ import annotations

import torch
from torch import nn

from permafrost.core.errors import PermafrostError
from permafrost.core.memory import keep_freed_memory
from permafrost.core.option_models import read
from permafrost.features.devices import exact_numerics
from permafrost.features.extract import open_backbone
from permafrost.features.running import Run, batch_outputs
from permafrost.features.specification import BackboneSpec
from permafrost.probes.dense.choice import check_warmup, rates_of
from permafrost.probes.fine_tune.augmentation import Augmentation
from permafrost.probes.fine_tune.depth import Layers, layers_of
from permafrost.probes.fine_tune.image_splits import ImageSplit, open_images
from permafrost.probes.fine_tune.masks import MaskProblem
from permafrost.probes.fine_tune.models import OnFrozen, Tuned, batch_norms
from permafrost.probes.fine_tune.options import FineTuneOptions
from permafrost.probes.fine_tune.streams import FrozenStream, ImageStream, share_windows
from permafrost.probes.fine_tune.tasks import FINE_TUNED, FROZEN, Answer
from permafrost.probes.fine_tune.trainer import BestTraining, FineTuneTrainer, RateSchedule, Start
from permafrost.probes.fine_tune.vectors import VectorProblem
from permafrost.probes.job import ImageProbeJob

NOTHING = "nothing_to_fine_tune"


def run_fine_tune(job: ImageProbeJob[FineTuneOptions]) -> None:
    """Train a head on the frozen backbone, then both together, and write the test predictions of each.

    Raises
    ------
    PermafrostError : anything that the user can fix; no partial output remains.
    """
    keep_freed_memory()
    options = job.options
    check_warmup(options.warmup_epochs, options.epochs, job.where)
    with exact_numerics(job.threads), torch.random.fork_rng(devices=[]):
        opened = open_backbone(
            extraction_of(job),
            images=job.stores,
            card=job.card,
            device=job.device,
            batch_size=options.batch_size,
        )
        splits = open_images(
            job, opened.attributes, resized=opened.run.prepare.plan.size is not None
        )
        tuning = _Tuning(job, opened.run, splits)
        answers = tuning.answers()
        opened.promised.check()
        tuning.problem.write(job, *answers)


class _Tuning:
    """One backbone on one dataset: its streams, its task, and the two trainings."""

    def __init__(
        self, job: ImageProbeJob[FineTuneOptions], run: Run, splits: dict[str, ImageSplit]
    ) -> None:
        self.run, self.options, self.where = run, job.options, job.where
        self.device, self.seed = run.device, job.derived_seed
        masked = splits["train"].masked
        self.augmentation = Augmentation.of(job.options.augmentation, masked=masked)
        how = {
            "batch_size": job.options.batch_size,
            "device": self.device,
            "budget": job.memory,
        }
        self.images, self.frozen = {}, {}
        shapes = None
        for name, split in splits.items():
            change = self.augmentation if name == "train" else None
            keep = name != "test"
            self.images[name] = ImageStream(split, self.run, augmentation=change, keep=keep, **how)
            shapes = shapes or made_shapes(self.images[name])
            self.frozen[name] = FrozenStream(self.images[name], shapes, keep=keep, **how)
            share_windows(self.frozen[name], self.images[name])
        self.layers = self._layers_to_learn()
        self.problem: MaskProblem | VectorProblem
        if masked:
            self.problem = MaskProblem(job, splits, run.backbone.layers, shapes[1:], self.device)
        else:
            self.problem = VectorProblem(splits, self.frozen, self.where)

    def answers(self) -> tuple[Answer, Answer]:
        """The test predictions of the fine-tuned and the frozen backbone."""
        head, found = self._fit_head()
        test = self.frozen["test"].in_order
        about = {
            "head_learning_rate": found.best.rate,
            **found.settings,
            "val_score": found.best.value,
            "head_parameters": sum(p.numel() for p in head.parameters()),
        }
        frozen = Answer(FROZEN, self.problem.answer(head, test), about, found.gates)
        if self.layers is None:
            settings = {**self._settings(head), "epochs_log": [], "frozen": about}
            return Answer(FINE_TUNED, frozen.output, settings, [*found.gates, NOTHING]), frozen
        # free their memory
        self.frozen.clear()
        tuned, best = self._fit_all(head, found.best.rate)
        settings = {
            **self._settings(head),
            "learning_rate": best.best.rate,
            "head_learning_rate": found.best.rate,
            **best.settings,
            "val_score": best.best.value,
            **_grid_of(best, self.problem.task.measure),
            "layer_rates": self._layer_rates(tuned, best.best.rate, found.best.rate),
            "layers_from": self.layers.source,
            "frozen": about,
        }
        answer = self.problem.answer(tuned, self.images["test"].in_order)
        return Answer(FINE_TUNED, answer, settings, best.gates), frozen

    def _fit_head(self) -> tuple[nn.Module, BestTraining]:
        """The head on the frozen backbone, at its best learning rate."""
        options = self.options
        # made when a training starts, so that it is drawn from the seed of that training
        model = OnFrozen(self.problem.build())

        def restart() -> None:
            model.head.load_state_dict(self.problem.build().state_dict())

        start = Start(
            model.to(self.device),
            restart,
            lambda rate: model.groups(0.0, rate, options.weight_decay),
        )
        schedule = RateSchedule(options.schedule, options.head_epochs, 0.0)
        found = self._trainer(start, self.frozen, schedule, f"{self.where}, frozen").fit(
            rates_of(options.head_learning_rate)
        )
        return model, found

    def _fit_all(self, on_frozen: nn.Module, head_rate: float) -> tuple[Tuned, BestTraining]:
        """The backbone and the head, from the initial head that the options name."""
        options = self.options
        head = self.problem.build().to(self.device)
        model = Tuned(
            self.run,
            head,
            self.layers,
            batch_norm=options.batch_norm,
            decay=options.layer_decay,
        )
        start = _copied(model.backbone.state_dict())
        learned = _copied(on_frozen.head.state_dict())
        self.run.backbone.unfreeze()

        def restart() -> None:
            model.backbone.load_state_dict(start)
            fresh = options.start == "random"
            head.load_state_dict(self.problem.build().state_dict() if fresh else learned)

        tuned = Start(
            model, restart, lambda rate: model.groups(rate, head_rate, options.weight_decay)
        )
        schedule = RateSchedule(options.schedule, options.epochs, options.warmup_epochs)
        found = self._trainer(tuned, self.images, schedule, self.where).fit(
            rates_of(options.learning_rate)
        )
        return model, found

    def _trainer(
        self, start: Start, streams: dict, schedule: RateSchedule, where: str
    ) -> FineTuneTrainer:
        return FineTuneTrainer(
            start,
            streams,
            self.problem.task,
            schedule,
            self.options,
            seed=self.seed,
            where=where,
        )

    def _layers_to_learn(self) -> Layers | None:
        """The layers of the backbone; None if it has no parameters to learn.

        Raises
        ------
        PermafrostError : batches of one image, if batch normalisation uses statistics of batches.
        """
        backbone, options = self.run.backbone, self.options
        if not backbone.learnable:
            return None
        alone = min(options.batch_size, len(self.images["train"].split)) < 2
        if alone and options.batch_norm == "trained" and batch_norms(backbone.module):
            raise PermafrostError(
                "batch normalisation needs more than one image per batch",
                where=self.where,
                remedy="use batch_norm: frozen, or a larger batch_size",
            )
        return layers_of(backbone.module, backbone.learnable)

    def _settings(self, head: nn.Module) -> dict:
        names = (
            "epochs",
            "batch_size",
            "weight_decay",
            "layer_decay",
            "schedule",
            "warmup_epochs",
            "clip_norm",
            "select",
            "start",
            "batch_norm",
            "precision",
            "head_epochs",
        )
        learned = sum(p.numel() for p in self.run.backbone.learnable)
        return {
            **{name: getattr(self.options, name) for name in names},
            "augmentation": self.augmentation.described if self.augmentation else None,
            "trainable_parameters": learned + sum(p.numel() for p in head.parameters()),
            "seed": self.seed,
        }

    def _layer_rates(self, model: Tuned, rate: float, head_rate: float) -> list[dict]:
        """Layers from input to output: their parameters, and their largest learning rate."""
        found: dict[str, dict] = {}
        for group in model.groups(rate, head_rate, 0.0):
            one = found.setdefault(
                group["layer"],
                {"layer": group["layer"], "parameters": 0, "learning_rate": group["full"]},
            )
            one["parameters"] += sum(p.numel() for p in group["params"])
        return list(found.values())


def made_shapes(images: ImageStream) -> list[tuple[int, ...]]:
    """Shapes of the backbone's features (K,) and of each of its maps (C, H, W) for an image."""
    features, maps = batch_outputs(images.run, images.stored_images(0, 1))
    return [tuple(features.shape[1:]), *(tuple(one.shape[1:]) for one in maps)]


def _grid_of(found: BestTraining, measure: str) -> dict:
    """Learning rates and their validation results, if more than one was tried."""
    if len(found.grid) < 2:
        return {}
    return {
        "learning_rates": [one["learning_rate"] for one in found.grid],
        "val_scores": [one[measure] for one in found.grid],
    }


def _copied(state: dict) -> dict:
    return {name: values.detach().clone() for name, values in state.items()}


def extraction_of(job: ImageProbeJob[FineTuneOptions]) -> BackboneSpec:
    """The spec of an extraction with the same backbone input, and with layers whose maps have gradients."""
    spec, options = job.extraction, job.options
    entry, maps = dict(spec["entry"]), spec["extraction"].get("maps")
    if options.layers is not None and maps:
        entry["layers"] = options.layers
    content = {
        name: spec[name]
        for name in ("stage", "dataset", "backbone", "files", "package")
        if name in spec
    }
    own = {"precision": options.precision, "compile": False}
    content["entry"] = entry
    content["extraction"] = {
        **spec["extraction"],
        **own,
        **({"maps_dtype": "float32"} if maps else {}),
    }
    content["inputs"] = {"images": job.images}
    return read(BackboneSpec, content, where=job.where)
