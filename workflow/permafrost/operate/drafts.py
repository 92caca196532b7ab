"""Draft entries as YAML, from a folder of images, the name of a model, or a file with a model."""

from __future__ import annotations

import ast
import copy
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from permafrost.core import extras
from permafrost.core.errors import PermafrostError
from permafrost.core.names import NAME_WORDS, is_name
from permafrost.data.sources import checked_entry
from permafrost.operate.offers import read_offers
from permafrost.plan.catalogue import EVERY
from permafrost.plan.installed import Installed
from permafrost.plan.mistakes import Mistakes
from permafrost.plan.validation import validate

_CHECKPOINTS = (".safetensors", ".pth", ".pt", ".ckpt", ".bin", ".tar")
_WIDTH = 100


@dataclass
class Entry:
    """A drafted entry.

    Attributes
    ----------
    kind : ``dataset`` or ``backbone``.
    notes : what the user must check or fill in: key to sentences; key ``""``: the whole entry.
    located : of a dataset, the content with absolute paths.
    """

    kind: str
    name: str
    content: dict
    notes: dict[str, list[str]] = field(default_factory=dict)
    located: dict = field(default_factory=dict)

    @property
    def where(self) -> str:
        return f"draft of {self.name}"

    def check(self) -> None:
        """Raise a `PermafrostError` if a plan would refuse the entry."""
        content = copy.deepcopy(self.content)
        validate(content, self.kind, where=self.where)
        if self.kind == "dataset":
            from permafrost.data.entry_checks import entry_mistakes

            mistakes = Mistakes()
            mistakes.add(
                *entry_mistakes(checked_entry(content, where=self.where), where=self.where)
            )
            mistakes.refuse(self.where)

    def as_yaml(self, seen: str, file: Path | None) -> str:
        """The text of a configuration that defines and uses the entry, with notes as comments.

        Parameters
        ----------
        seen : what it was drafted from, for the comment.
        file : the configuration's path, for the suggested command.
        """
        return "\n".join(
            [
                *self._heading(seen, f" --config {file or 'FILE'}"),
                f"{self.kind}s: [{self.name}]",
                f"extra_{self.kind}s:",
                *(f"  {line}" for line in self._lines()),
                "",
            ]
        )

    def bare(self, seen: str) -> str:
        """The text of the entry for a catalogue, with notes as comments."""
        return "\n".join([*self._heading(seen, ""), *self._lines()])

    def _heading(self, seen: str, option: str) -> list[str]:
        return [
            f"# A draft from {seen}. Read the comments, correct the entry, then try it:",
            f"#   permafrost check {self.trial()}{option}",
        ]

    def _lines(self) -> list[str]:
        lines = [f"{self.name}:", *_comment(self.notes.get("", []))]
        for key, value in self.content.items():
            lines += _comment(self.notes.get(key, []))
            text = yaml.safe_dump(
                {key: value}, sort_keys=False, allow_unicode=True, width=_WIDTH, indent=2
            )
            lines += [f"  {line}" for line in text.rstrip().splitlines()]
        return lines

    def trial(self) -> str:
        if self.kind == "backbone":
            return f"{self.name} --dataset demo-landcover"
        return f"rcf --dataset {self.name}"


def _comment(sentences: list[str]) -> list[str]:
    return [f"  # {' '.join(sentence.split())}" for sentence in sentences]


def entry_name(text: str, given: str | None) -> str:
    """A valid entry name: `given`, else derived from `text`; an invalid one is refused."""
    name = given or re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    if not is_name(name) or name == EVERY:
        raise PermafrostError(
            f"{name!r} is not a valid name for an entry",
            where="--name",
            remedy=f"give --name with {NAME_WORDS}",
        )
    return name


def dataset_draft(path: Path, name: str | None, root: Path) -> Entry:
    """Draft the entry of a directory or archive of images; paths inside `root` become relative."""
    from permafrost.data.proposal.entry import draft_of

    absolute = Path(os.path.abspath(path))
    draft = draft_of(absolute, where=path)
    name = entry_name(path.resolve().name.partition(".")[0], name)
    content = {"task": draft.task, "source": _relative(draft.source, f"{root}/"), **draft.fields}
    if draft.splits != {"method": "given"}:
        content["splits"] = draft.splits
    located = copy.deepcopy({**content, "source": draft.source})
    return Entry("dataset", name, content, draft.notes, located)


def _relative(source, root: str):
    """Options of a source, with paths inside `root` relative to it."""
    if isinstance(source, Mapping):
        return {key: _relative(value, root) for key, value in source.items()}
    return source.removeprefix(root) if isinstance(source, str) else source


def backbone_draft(model: str, name: str | None, offered: Installed | None, root: Path) -> Entry:
    """Draft the entry of a timm or torchgeo model, a Python file that builds one, or a checkpoint.

    Parameters
    ----------
    model : a model's name, a path, or ``file.py:function``.
    offered : the models of timm and torchgeo; None: they are not installed.
    root : the directory that paths in entries refer to.

    Raises
    ------
    PermafrostError : the file cannot be read, or the model is unknown.
    """
    file = Path(model.partition(".py:")[0] + ".py") if ".py:" in model else Path(model)
    if file.suffix == ".py":
        return _entry_point(file, model.partition(".py:")[2], name, root)
    if file.suffix in _CHECKPOINTS and (file.exists() or "/" in model):
        return _checkpoint(file, name, offered, root)
    return _of_library(model, name, offered)


def _entry_point(file: Path, function: str, name: str | None, root: Path) -> Entry:
    try:
        body = ast.parse(file.read_bytes()).body
    except (OSError, SyntaxError, ValueError) as error:
        raise PermafrostError(
            f"cannot be read as Python ({error})", where=file, remedy="correct the path or the file"
        ) from error
    functions = [node.name for node in body if isinstance(node, ast.FunctionDef)]
    if not function:
        function = "build" if "build" in functions else next(iter(functions), "build")
    place = _relative(os.path.abspath(file), f"{root}/")
    entry = Entry(
        "backbone",
        entry_name(file.stem, name),
        {"kind": "entrypoint", "entrypoint": f"{place}:{function}", "input": {"bands": "rgb"}},
    )
    if function not in functions:
        entry.notes["entrypoint"] = [
            f"the file has no function {function!r}: write one, as config/backbones/template.py shows"
        ]
    entry.notes["input"] = [
        "assumed: z-scores of each dataset's train split (normalization: dataset)",
        "give bands, size and, if the model was trained with fixed ones, normalization: weights with mean, std, unit",
    ]
    return entry


def _checkpoint(file: Path, name: str | None, offered: Installed | None, root: Path) -> Entry:
    if not file.is_file():
        raise PermafrostError("there is no such file", where=file, remedy="correct the path")
    absolute = os.path.abspath(file)
    model, channels, how = _architecture(Path(absolute), offered, root)
    content = {
        "kind": "timm",
        "model": model,
        "weights": {"source": "file", "path": _relative(absolute, f"{root}/")},
        "input": {"bands": "rgb", **_statistics(model, offered)},
    }
    entry = Entry("backbone", entry_name(file.stem, name), content)
    entry.notes["model"] = [f"architecture of timm that the checkpoint is of; {how}"]
    if file.suffix != ".safetensors":
        entry.notes["weights"] = [
            f"a pickle runs code when it is read: permafrost convert-checkpoint {file.name} NEW.safetensors"
        ]
    entry.notes["input"] = [
        f"assumed: mean and std that timm has for {model}, of pixels / 255; the file holds none",
        "correct them, bands and size to what the weights were trained with, then see what check says",
    ]
    if channels not in (None, 3):
        entry.notes["input"].append(
            f"the weights take {channels} channels, and rgb names 3: name their bands, in their order, such as"
            " bands: [B02, B03, …]; mean and std need one number each, or one for all"
        )
    return entry


def _assumed(wants: Mapping) -> str:
    if wants["normalization"] == "dataset":
        return "assumed: z-scores of each dataset's train split (normalization: dataset)"
    mean, std = (", ".join(f"{one:.4g}" for one in wants[key]) for key in ("mean", "std"))
    return f"assumed: timm's statistics of these weights, mean {mean}, std {std}, of pixels / 255"


def _statistics(model: str, offered: Installed | None) -> dict:
    """timm's mean and standard deviation, written into the entry so that the user sees them."""
    if offered is None:
        return {}
    known = offered.timm({"model": model, "weights": {"source": "file"}}, model).wants
    return {
        "normalization": "weights",
        "unit": known["unit"],
        **{key: list(known[key]) for key in ("mean", "std")},
    }


def _architecture(file: Path, offered: Installed | None, root: Path) -> tuple[str, int | None, str]:
    """The timm architecture of a checkpoint, its number of channels (None: unknown), and why."""
    from permafrost.backbones.weights.recognised import recognised

    known = [] if offered is None else offered.timm_models()
    stem = re.sub(r"[^a-z0-9]+", "_", file.stem.lower())
    named = max((model for model in known if stem.startswith(model)), key=len, default=None)
    try:
        if named is not None and (found := recognised(file, [named])):
            return named, found[0].channels, "the file's name says so, and its tensors fit"
        found = recognised(file, _catalogued(root, known))
    except PermafrostError as error:
        if named is not None:
            return named, None, f"guessed from the file's name, since {error.problem}"
        return "resnet50", None, f"NOT KNOWN, resnet50 only fills the place: {error.problem}"
    if found:
        others = [one.model for one in found[1:]]
        also = f"; so have {', '.join(others)}" if others else ""
        return found[0].model, found[0].channels, f"its tensors have these names and shapes{also}"
    if named is not None:
        return named, None, "guessed from the file's name, BUT the tensors are other ones"
    return (
        "resnet50",
        None,
        (
            "NOT KNOWN, resnet50 only fills the place: no architecture of the catalogue has these names and shapes"
        ),
    )


def _catalogued(root: Path, known: list[str]) -> list[str]:
    """The timm architectures in the project's catalogues, each once."""
    backbones = read_offers(root).backbones
    entries = [backbones.written(name) for name in backbones.names([EVERY])]
    models = [
        str(entry.get("model")).partition(".")[0]
        for entry in entries
        if isinstance(entry, dict) and entry.get("kind") == "timm"
    ]
    return [model for model in dict.fromkeys(models) if model in known]


def _of_library(model: str, name: str | None, offered: Installed | None) -> Entry:
    if offered is None:
        raise PermafrostError(
            "timm and torchgeo are not installed, so model names cannot be looked up",
            where=model,
            remedy=extras.remedy("workflow"),
        )
    tries: list[dict] = [
        {"kind": "timm", "model": model, "weights": {"source": "pretrained"}},
        {"kind": "timm", "model": model, "weights": {"source": "random"}},
    ]
    if "_Weights." in model:
        tries = [{"kind": "torchgeo", "weights": model}]
    elif "." not in model:
        tries.append({"kind": "torchgeo", "model": model, "weights": None})
    errors = []
    for content in tries:
        try:
            getattr(offered, content["kind"])(content, model)
        except PermafrostError as error:
            errors.append(error)
            continue
        entry = Entry("backbone", entry_name(model.replace("_Weights", ""), name), dict(content))
        if content.get("weights") in (None, {"source": "random"}):
            entry.notes["weights"] = [
                "random weights: no pretrained ones have this name",
            ]
        if content["kind"] == "timm":
            entry.content["input"] = {"bands": "rgb"}
            entry.notes["input"] = [_assumed(offered.timm(content, model).wants)]
        return entry
    raise errors[0]
