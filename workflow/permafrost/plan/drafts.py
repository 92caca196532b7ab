"""First entries of one's own as YAML: of a folder of images, of a model's name, or of a file with a model."""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from permafrost.core.errors import PermafrostError
from permafrost.plan.catalogue import EVERY, NAME
from permafrost.plan.installed import Installed
from permafrost.plan.validation import validate

_CHECKPOINTS = (".safetensors", ".pth", ".pt", ".ckpt", ".bin", ".tar")
_WIDTH = 100


@dataclass
class Entry:
    """An entry, and what a person has to check or fill in: key -> sentences, ``""`` for the whole."""

    kind: str
    name: str
    content: dict
    notes: dict[str, list[str]] = field(default_factory=dict)

    @property
    def where(self) -> str:
        return f"draft of {self.name}"

    def check(self) -> None:
        """Refuse, with a sentence, an entry that a plan would refuse."""
        content = copy.deepcopy(self.content)
        validate(content, self.kind, where=self.where)
        if self.kind == "dataset":
            from permafrost.data.entry_checks import entry_mistakes
            from permafrost.data.sources import read_entry
            from permafrost.plan.mistakes import Mistakes

            mistakes = Mistakes()
            mistakes.add(*entry_mistakes(read_entry(content, where=self.where), where=self.where))
            mistakes.refuse(self.where)

    def as_yaml(self, seen: str, file: Path | None) -> str:
        """A configuration `file` that names the entry and holds it, with the notes as comments."""
        lines = [
            f"# A draft from {seen}. Read the comments, correct the entry, then try it:",
            f"#   permafrost check {self._trial()} --config {file or 'FILE'}",
            f"{self.kind}s: [{self.name}]",
            f"extra_{self.kind}s:",
            f"  {self.name}:",
            *_comment(self.notes.get("", [])),
        ]
        for key, value in self.content.items():
            lines += _comment(self.notes.get(key, []))
            text = yaml.safe_dump(
                {key: value}, sort_keys=False, allow_unicode=True, width=_WIDTH, indent=2
            )
            lines += [f"    {line}" for line in text.rstrip().splitlines()]
        return "\n".join(lines) + "\n"

    def _trial(self) -> str:
        if self.kind == "backbone":
            return f"{self.name} --dataset demo-landcover"
        return f"rcf --dataset {self.name}"


def _comment(sentences: list[str]) -> list[str]:
    return [f"    # {' '.join(sentence.split())}" for sentence in sentences]


def entry_name(text: str, given: str | None) -> str:
    """A name that a catalogue takes: the one that is given, else made of a path or the name of a model."""
    name = given or re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    if not NAME.fullmatch(name) or name == EVERY:
        raise PermafrostError(
            f"{name!r} cannot name an entry",
            where="--name",
            remedy="give --name with lower-case letters, digits and '-'",
        )
    return name


def dataset_draft(path: Path, name: str | None) -> Entry:
    """The entry of a directory or archive of images."""
    from permafrost.data.proposal.entry import draft_of

    draft = draft_of(path, where=path)
    name = entry_name(path.resolve().name.partition(".")[0], name)
    content = {"task": draft.task, "source": draft.source, **draft.fields}
    if draft.splits != {"method": "given"}:
        content["splits"] = draft.splits
    return Entry("dataset", name, content, draft.notes)


def backbone_draft(model: str, name: str | None, offered: Installed | None, root: Path) -> Entry:
    """The entry of a model of timm or torchgeo, a Python file that builds one, or a checkpoint.

    Parameters
    ----------
    offered : what timm and torchgeo have, None where they are not installed.
    root : the directory that paths in entries refer to.
    """
    file = Path(model.partition(".py:")[0] + ".py") if ".py:" in model else Path(model)
    if file.suffix == ".py":
        return _entry_point(file, model.partition(".py:")[2], name, root)
    if file.suffix in _CHECKPOINTS and (file.exists() or "/" in model):
        return _checkpoint(file, name, offered)
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
    absolute = file.resolve()
    place = absolute.relative_to(root) if absolute.is_relative_to(root) else absolute
    entry = Entry(
        "backbone",
        entry_name(file.stem, name),
        {"kind": "entrypoint", "entrypoint": f"{place}:{function}", "input": {"bands": "rgb"}},
    )
    if function not in functions:
        entry.notes["entrypoint"] = [
            f"the file has no function {function!r}: write one, as config/backbones/template.py shows"
        ]
    entry.notes["input"] = ["bands, size and normalization that the model was trained with"]
    return entry


def _checkpoint(file: Path, name: str | None, offered: Installed | None) -> Entry:
    if not file.is_file():
        raise PermafrostError("there is no such file", where=file, remedy="correct the path")
    known = [] if offered is None else offered.timm_models()
    stem = re.sub(r"[^a-z0-9]+", "_", file.stem.lower())
    fitting = [model for model in known if stem.startswith(model)]
    model = max(fitting, key=len, default="resnet50")
    weights = {"source": "file", "path": str(file.resolve())}
    content = {"kind": "timm", "model": model, "weights": weights, "input": {"bands": "rgb"}}
    entry = Entry("backbone", entry_name(file.stem, name), content)
    guess = "guessed from the file's name" if fitting else "the file's name tells nothing"
    entry.notes["model"] = [f"architecture of timm that the checkpoint is of; {guess}"]
    if file.suffix != ".safetensors":
        entry.notes["weights"] = [
            f"a pickle runs code when it is read: permafrost convert-checkpoint {file.name} NEW.safetensors"
        ]
    entry.notes["input"] = ["bands, size and normalization that the weights were trained with"]
    return entry


def _of_library(model: str, name: str | None, offered: Installed | None) -> Entry:
    if offered is None:
        raise PermafrostError(
            "timm and torchgeo are not installed, so no model is known by its name",
            where=model,
            remedy="install them (envs/run does)",
        )
    tries: list[Mapping] = [
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
        return entry
    raise errors[0]
