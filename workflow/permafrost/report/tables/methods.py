"""The methods of a paper, from a recorded plan and its tables: paragraphs, tables of all options, citations."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence

from permafrost import __version__
from permafrost.backbones.derived import BY, parents_of
from permafrost.core.options import Options
from permafrost.core.versions import FAISS
from permafrost.data.derived import origins_of
from permafrost.features.specification import ExtractionSettings
from permafrost.probes.kinds import KINDS
from permafrost.report.notation import NONE, listed
from permafrost.report.tables.derived import steps_words
from permafrost.report.tables.export import to_bibtex
from permafrost.statistics.leaderboard.rows import distinct, metric_name
from permafrost.statistics.options import Bootstrap, Comparison

TITLE = "Permafrost: how good are the features of frozen geospatial backbones?"
AUTHORS = "The Permafrost developers"
# largest number of named combinations; with more, only their number
_MOST_NAMED = 12
# libraries named in the paragraph; the archive lists all
_NAMED = ("python", "torch", "timm", "torchgeo", *FAISS, "numpy", "scipy")
# columns of the leaderboard
_COUNTS = ("n_train", "n_val", "n_test")
# default of an option that must be given
_NO_DEFAULT = object()
_INTERVALS = {
    "wilson": "Wilson's formula with jackknife standard errors",
    "jackknife_t": "Student's t with jackknife standard errors",
    "jackknife_log": "jackknife standard errors of the logarithm",
    "percentile": "the percentile bootstrap",
    "bca": "the BCa bootstrap",
    "basic": "the basic bootstrap",
    "basic_square": "the basic bootstrap of squares",
}
_ADJUSTED = {"romano_wolf": "Romano and Wolf's step-down procedure"}
_SPLITS = {
    "random": "drawn at random, stratified",
    "group": "drawn as whole groups",
    "block": "drawn as whole squares on the ground",
}


def methods_text(
    plan: Mapping, rows: list[dict], comparisons: Iterable[dict], versions: Mapping
) -> str:
    """Two paragraphs for a paper, which name the options that differ from their defaults.

    Parameters
    ----------
    plan : the recorded plan.
    rows : primary rows of the leaderboard (`statistics.leaderboard.rows.overall`).
    comparisons : rows of paired differences of the primary metrics.
    versions : package to all versions that results were computed with.
    """
    # measures and profiles are rows of the leaderboard too
    rows = [row for row in rows if row["probe"] in plan["probes"]]
    comparisons = [row for row in comparisons if row["probe"] in plan["probes"]]
    paragraphs = [
        [_what(plan), *_left_out(plan), *_divisions(plan), _features(plan), *_derived(plan)],
        [
            *_probes(plan),
            *_metrics(rows),
            *_intervals(rows),
            *_comparisons(comparisons),
            *_versions(versions),
        ],
    ]
    return "\n\n".join(" ".join(one) for one in paragraphs if one) + "\n"


def methods_tables(plan: Mapping, rows: list[dict]) -> str:
    """Tables in Markdown for a supplement: the datasets with their numbers of images, and every option.

    Parameters
    ----------
    plan, rows : as for `methods_text`.
    """
    datasets = [
        (
            name,
            entry["task"].replace("_", " "),
            *(_range([row[key] for row in rows if row["dataset"] == name]) for key in _COUNTS),
            _split(entry),
        )
        for name, entry in plan["datasets"].items()
    ]
    options = [
        (place, key, *_value_and_default(value, default))
        for place, given, defaults in _options(plan)
        for key, value, default in _with_defaults(given, defaults)
    ]
    return (
        _table(("dataset", "task", "training", "validation", "test", "splits"), datasets)
        + "\nValues in bold differ from their defaults. Options of a backbone's entry override them.\n\n"
        + _table(("of", "option", "value", "default"), options)
    )


def _table(heads: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |\n" for line in lines)


def _options(plan: Mapping) -> Iterator[tuple[str, Mapping, dict]]:
    """Where options belong, the options, and their defaults."""
    config = plan["config"]
    for name, options in (
        ("extraction", ExtractionSettings),
        ("bootstrap", Bootstrap),
        ("comparison", Comparison),
    ):
        yield name, config.get(name, {}), _defaults(options)
    for name, given in plan["probes"].items():
        yield f"probe {name}", given, _defaults(*KINDS[given["kind"]].option_classes())


def _with_defaults(given: Mapping, defaults: Mapping) -> Iterator[tuple[str, object, object]]:
    """Each option with its value and its default; those of nested options one by one."""
    for key, value in given.items():
        default = defaults.get(key, _NO_DEFAULT)
        if isinstance(value, Mapping) and isinstance(default, Mapping):
            for inner, one, usual in _with_defaults(value, default):
                yield f"{_words(key)} {inner}", one, usual
        else:
            yield _words(key), value, default


def _defaults(*classes: type) -> dict[str, object]:
    """Default of each option of these dataclasses, as in JSON; those that must be given are missing."""
    found: dict[str, object] = {}
    for one in classes:
        for field in dataclasses.fields(one):
            if field.default_factory is not dataclasses.MISSING:
                made = field.default_factory()
                found[field.name] = dataclasses.asdict(made) if isinstance(made, Options) else made
            elif field.default is not dataclasses.MISSING:
                found[field.name] = field.default
    return found


def _differing(given: Mapping, defaults: Mapping) -> str:
    """`` (k 20, metric cosine)``: options that differ from their defaults; empty if none does."""
    said = [
        f"{key} {_value(value)}"
        for key, value, default in _with_defaults(given, defaults)
        if value != default and key != "kind"
    ]
    return f" ({', '.join(said)})" if said else ""


def bibtex(plan: Mapping) -> str:
    """Citations of this tool and of the backbones and datasets of a plan."""
    fields = {
        "title": f"{{{TITLE}}}",
        "author": f"{{{AUTHORS}}}",
        "version": __version__,
    }
    lines = [f"  {key} = {{{value}}}," for key, value in fields.items()]
    own = "\n".join(["@software{permafrost,", *lines, "}"])
    used = to_bibtex(plan)
    return f"{own}\n\n{used}" if used else f"{own}\n"


def _what(plan: Mapping) -> str:
    roots = {name: one for name, one in plan["backbones"].items() if not parents_of(one)}
    backbones = _titles(roots)
    datasets = [one for one in plan["datasets"].values() if not origins_of(one)]
    return (
        f"We evaluated {_count(len(backbones), 'frozen backbone')} ({listed(backbones)}) on "
        f"{_count(len(datasets), 'dataset')} with Permafrost {__version__}."
    )


def _derived(plan: Mapping) -> list[str]:
    derived = {name: one for name, one in plan["backbones"].items() if parents_of(one)}
    if not derived:
        return []
    # forms of `derive` have the same steps for every backbone
    said = dict.fromkeys(
        f"{f'{BY}{form}' if form else f'{name}, of {listed(parents_of(one))}'}"
        + (f": {steps_words(one['steps'])}" if one["steps"] else "")
        for name, one in derived.items()
        for form in [name.partition(BY)[2]]
    )
    ranked = plan["config"]["ranking"].get("derived")
    how = (
        "ranked and compared as all others"
        if ranked
        else "compared with the backbones that they are derived from, and not ranked"
    )
    return [
        f"{_count(len(derived), 'derived backbone')} ({'; '.join(said)}) read these features through steps that"
        f" were learned from the training images, and were {how}."
    ]


def _left_out(plan: Mapping) -> list[str]:
    pairs = {(one["backbone"], one["dataset"], one["probe"]) for one in plan.get("left_out", [])}
    if not pairs:
        return []
    if len(pairs) > _MOST_NAMED:
        return [f"{len(pairs)} combinations that do not fit each other were left out."]
    named = [
        f"{backbone} on {dataset}" + (f" with {probe}" if probe else "")
        for backbone, dataset, probe in sorted(pairs, key=lambda pair: (*pair[:2], pair[2] or ""))
    ]
    return [f"Left out, because they do not fit each other: {listed(named)}."]


def _titles(entries: Mapping[str, Mapping]) -> list[str]:
    return [entry.get("title") or name for name, entry in entries.items()]


def _divisions(plan: Mapping) -> list[str]:
    """A sentence for all datasets that are divided alike, and one for all degradations of a dataset."""
    alike: dict[str, list[str]] = {}
    harder: dict[str, list[str]] = {}
    for name, entry in plan["datasets"].items():
        derived = entry.get("derived", {})
        if "harder" in derived:
            ((kind, severity),) = derived["harder"].items()
            harder.setdefault(derived["of"], []).append(f"{_words(kind)} {severity}")
        else:
            alike.setdefault(_split(entry), []).append(entry.get("title") or name)
    said = [f"{_few(names, 'dataset')}: {how}." for how, names in alike.items()]
    if len(alike) == 1:
        said = [f"We used {how}." for how in alike]
    return said + [
        f"Test images of {name} were also degraded (kind and severity: {_few(kinds, 'degradation')})."
        for name, kinds in harder.items()
    ]


def _few(names: list[str], what: str) -> str:
    return listed(names) if len(names) <= _MOST_NAMED else _count(len(names), what)


def _split(entry: Mapping) -> str:
    if derived := entry.get("derived"):
        return _divided(derived)
    splits = entry.get("splits", {})
    how = splits.get("method", "given")
    if how == "given":
        share = splits.get("val_from_train")
        aside = f", with {100 * share:g} % of training set aside for validation" if share else ""
        return f"the splits that come with the data{aside}"
    shares = "/".join(f"{100 * share:g}" for share in splits["fractions"])
    block = f" of {splits['block_km']:g} km" if how == "block" and "block_km" in splits else ""
    return f"splits {_SPLITS[how]}{block} ({shares} % train/validation/test, seed {splits['seed']})"


def _divided(derived: Mapping) -> str:
    if "folds" in derived:
        folds = derived["folds"]
        apart = (
            f", with {folds['buffer_km']:g} km around test images left out"
            if "buffer_km" in folds
            else ""
        )
        by = folds.get("column", folds["by"])
        return f"the images of {derived['of']} in folds by {by}{apart} (seed {folds['seed']})"
    if "share" in derived:
        part = f"{100 * derived['share']:.3g} % of the training and validation images"
        return f"{part} of {derived['of']} (seed {derived['seed']})"
    if "harder" in derived:
        ((kind, severity),) = derived["harder"].items()
        how = f"degraded by {_words(kind)} of severity {severity} (seed {derived['seed']})"
        return f"the splits of {derived['of']}, with test images {how}"
    return f"the training images of {derived['train']} and the test images of {derived['test']}"


def _features(plan: Mapping) -> str:
    differing = _differing(plan["config"].get("extraction", {}), _defaults(ExtractionSettings))
    return f"Features were computed once for each image, with the weights frozen{differing}."


def _probes(plan: Mapping) -> list[str]:
    said = []
    for name, options in plan["probes"].items():
        kind = KINDS[options["kind"]]
        summary = kind.summary.partition(":")[0].partition(". ")[0].rstrip(".")
        said.append(
            f"The probe {name} {summary}{_differing(options, _defaults(*kind.option_classes()))}."
        )
    seeded = [name for name, one in plan["probes"].items() if KINDS[one["kind"]].seeded]
    if seeded:
        seeds = plan["config"]["seeds"]
        said.append(
            f"{listed(seeded)}, in which chance plays a part, ran with "
            f"{'seed' if len(seeds) == 1 else 'seeds'} {listed(map(str, seeds))}."
        )
    return (
        [*said, "All other options of extraction and probes have their defaults."] if said else []
    )


def _metrics(rows: list[dict]) -> list[str]:
    by_metric: dict[str, list[str]] = {}
    for metric, dataset in sorted({(row["metric"], row["dataset"]) for row in rows}):
        by_metric.setdefault(metric_name(metric), []).append(dataset)
    if len(by_metric) == 1:
        return [f"The score is {metric} on the test split." for metric in by_metric]
    said = [f"{metric} ({_few(names, 'dataset')})" for metric, names in by_metric.items()]
    return [f"Scores are {listed(said)} on the test split."] if said else []


def _intervals(rows: list[dict]) -> list[str]:
    methods: dict[tuple[str, str], list[str]] = {}
    for method in distinct(rows, "method"):
        of = [row for row in rows if row["method"] == method]
        units = f"test {listed(f'{unit}s' for unit in distinct(of, 'unit'))}"
        how = (
            f"{units} left out in turn"
            if method.startswith(("wilson", "jackknife"))
            else f"{_of(of, 'resamples')} resamples of {units}"
        )
        methods.setdefault((_of(of, "confidence", percent=True), how), []).append(
            _INTERVALS[method]
        )
    return [
        f"{confidence} confidence intervals come from {listed(names)} ({how})."
        for (confidence, how), names in methods.items()
    ]


def _comparisons(rows: list[dict]) -> list[str]:
    if not rows:
        return []
    adjusted = listed(_ADJUSTED.get(one, one) for one in distinct(rows, "adjustment"))
    return [
        f"Backbones were compared in pairs on the same test {listed(f'{u}s' for u in distinct(rows, 'unit'))}; "
        f"p-values are adjusted for the number of pairs by {adjusted} ({_of(rows, 'resamples')} resamples)."
    ]


def _versions(met: Mapping) -> list[str]:
    said = [f"{name} {'/'.join(met[name])}" for name in _NAMED if name in met]
    return [f"Results were computed with {listed(said)}."] if said else []


def _of(rows: list[dict], column: str, *, percent: bool = False) -> str:
    values = distinct(rows, column)
    return listed(f"{100 * value:g} %" if percent else f"{value}" for value in values)


def _range(counts: list[int]) -> str:
    if not counts:
        return NONE
    low, high = min(counts), max(counts)
    return str(low) if low == high else f"{low} to {high}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _words(key: str) -> str:
    return key.replace("_", " ")


def _value(value) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, list):
        return "/".join(map(_value, value))
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_words(k)} {_value(v)}" for k, v in value.items()) + "}"
    return "none" if value is None else str(value)


def _value_and_default(value, default) -> tuple[str, str]:
    if default is _NO_DEFAULT:
        return _value(value), NONE
    said = _value(value)
    return (f"**{said}**" if value != default else said), _value(default)
