"""Figures of the overview page: specifications and rows, for the page's script and as SVG."""

from __future__ import annotations

import contextlib
import functools
import itertools
from pathlib import Path

from permafrost.core.errors import PermafrostError
from permafrost.core.identity import fingerprint
from permafrost.core.outputs import whole_file
from permafrost.report.figures.interactive import costs, critical, probes, ranked
from permafrost.report.figures.vega import FONT, as_svg
from permafrost.report.material.dataset import slug
from permafrost.report.sections.explorer import embedded
from permafrost.statistics.across_datasets.letters import letters_in
from permafrost.statistics.across_datasets.ranks import kendall_tau

_WIDTH = 640  # pixels of an SVG
_LICENCES = Path(__file__).parents[1] / "template" / "vega-licences.txt"
# the page's script loads the library when a figure is needed, and waits for this event
_READY = 'window.vegaEmbed = vegaEmbed; dispatchEvent(new Event("vega"));'


def overview(data: dict, tests: list[dict], folder: Path) -> dict | None:
    """Template values, None if there is nothing to compare; writes an SVG of each figure and probe.

    Parameters
    ----------
    data : from `explorer.explorer`.
    tests : from the standings' metadata.
    folder : for the SVG.
    """
    from markupsafe import Markup

    given = {"cliques": _cliques(tests), "agreement": _agreement(data)}
    drawn = _figures(data, given)
    if len(data["backbones"]) < 2 or not drawn:
        return None
    group = "all" if "all" in data["standings"] else next(iter(data["standings"]), None)
    stills = {
        probe: _stills(data, given, drawn, group, probe, folder)
        for probe in data["standings"].get(group, {})
    }
    if not stills:
        return None
    # same choice as the page's script: the probe with the most datasets
    served = {probe: sum(key.endswith(f"|{probe}") for key in data["metrics"]) for probe in stills}
    first = max(stills, key=lambda probe: (served[probe], probe == "linear"))
    specifications = {name: spec for name, (_, _, spec) in drawn.items()}
    return {
        "figures": [
            {
                "name": name,
                "title": title,
                "words": words,
                "file": stills[first][name],
                "alt": f"{title}, {first}",
            }
            for name, (title, words, _) in drawn.items()
            if name in stills[first]
        ],
        "data": Markup(embedded({"specifications": specifications, **given})),
        "library": Markup(_library()),
    }


@functools.cache
def _library() -> str:
    """Vega-Lite, Vega and an expression interpreter without ``eval``, as one script."""
    licences = _LICENCES.read_text(encoding="utf-8")
    return f"/*!\n{licences}*/\n{_bundle()}"


def _bundle() -> str:
    """The libraries as one file, cached next to the byte code, because bundling is slow."""
    import vl_convert

    name = f"vega-{fingerprint(vl_convert.__version__, _READY)}.js"
    kept = Path(__file__).parent / "__pycache__" / name
    with contextlib.suppress(OSError):
        return kept.read_text(encoding="utf-8")
    made = vl_convert.javascript_bundle(_READY)
    # without a writable cache nothing is lost
    with (
        contextlib.suppress(OSError, PermafrostError),
        whole_file(kept, exclusive=False) as partial,
    ):
        partial.write_text(made, encoding="utf-8")
    return made


def _figures(data: dict, given: dict) -> dict[str, tuple[str, str, dict]]:
    """Name to title, caption and specification, of the figures that have data in this run."""
    known = {
        "ms": any(one["throughput"] for one in data["backbones"]),
        "parameters": any(one["parameters"] for one in data["backbones"]),
    }
    found = {"ranked": (ranked.TITLE, ranked.WORDS, ranked.draw_ranked())}
    for cost, (title, _, _) in costs.COSTS.items():
        if known[cost]:
            found[f"cost_{cost}"] = (title, costs.WORDS, costs.draw_costs(cost))
    if given["cliques"]:
        found["critical"] = (critical.TITLE, critical.WORDS, critical.draw_critical())
    if any(given["agreement"].values()):
        found["probes"] = (probes.TITLE, probes.WORDS, probes.draw_probes(data["probes"]))
    return found


def _cliques(tests: list[dict]) -> dict[str, dict[str, dict]]:
    """Group to probe to Nemenyi's critical difference and groups, if there are several datasets."""
    found: dict[str, dict[str, dict]] = {}
    for one in tests:
        if one["friedman_p"] is not None:
            found.setdefault(one["group"], {})[one["probe"]] = {
                "difference": f"{one['critical_difference']:.2f}",
                "cliques": one["cliques"],
            }
    return found


def _agreement(data: dict) -> dict[str, list[dict]]:
    """Kendall's τ of every pair of probes, by group and by dataset."""
    names = [one["name"] for one in data["backbones"]]
    scores: dict[str, dict[str, dict[str, float]]] = {}
    for group, by_probe in data["standings"].items():
        for probe, answer in by_probe.items():
            ranks = {row["backbone"]: row["rank"] for row in answer["rows"]}
            scores.setdefault(group, {})[probe] = ranks
    cells = data["cells"]
    for dataset, backbone, probe, rank in zip(
        *(cells[key] for key in ("dataset", "backbone", "probe", "rank")), strict=True
    ):
        of_dataset = scores.setdefault(data["datasets"][dataset]["name"], {})
        of_dataset.setdefault(data["probes"][probe], {})[names[backbone]] = rank
    found: dict[str, list[dict]] = {}
    for where, by_probe in scores.items():
        for a, b in itertools.combinations(sorted(by_probe), 2):
            shared = [
                (rank, by_probe[b][name])
                for name, rank in by_probe[a].items()
                if rank is not None and by_probe[b].get(name) is not None
            ]
            if len(shared) < 2:
                continue
            tau = kendall_tau(*zip(*shared, strict=True))
            said = "undefined" if tau != tau else f"{tau:.2f}"
            label = f": τ {said} (n = {len(shared)})"
            found.setdefault(where, []).append({"a": a, "b": b, "label": label})
    return found


# --- as SVG: the same rows as template/overview.js makes for the page, without filters


def figures_of(data: dict, tests: list[dict], group: str, probe: str) -> dict[str, dict]:
    """Name to complete Vega-Lite specification, with rows, of the figures of a group and probe.

    Parameters
    ----------
    data : from `explorer.explorer`; tests : from the standings' metadata.
    """
    given = {"cliques": _cliques(tests), "agreement": _agreement(data)}
    return _whole(data, given, _figures(data, given), group, probe)


def _stills(
    data: dict, given: dict, drawn: dict, group: str, probe: str, folder: Path
) -> dict[str, str]:
    """Write each figure of a group and probe; returns name to file."""
    files = {}
    for name, whole in _whole(data, given, drawn, group, probe).items():
        files[name] = f"{name}__{slug(probe)}.svg"
        (folder / files[name]).write_text(as_svg(whole), encoding="utf-8")
    return files


def _whole(data: dict, given: dict, drawn: dict, group: str, probe: str) -> dict[str, dict]:
    """Name to specification with rows, of the figures that have any."""
    answer = data["standings"][group][probe]
    several = len(answer["datasets"]) > 1
    points = _points(data, group)
    tests = given["cliques"].get(group, {}).get(probe) if several else None
    tables = {
        "points": points,
        "agreement": [
            {"other": other, "label": other + one["label"]}
            for one in given["agreement"].get(group, [])
            if probe in (one["a"], one["b"])
            for other in [one["b"] if one["a"] == probe else one["a"]]
        ],
        **_diagram([one for one in points if one["probe"] == probe], tests),
    }
    level = f"{100 * data['confidence']:g} %"
    count = len(answer["datasets"])
    parameters = {
        "probe": probe,
        "measure": f"mean rank over {count} dataset{'s' * (count != 1)}",
        "higher": False,
        "how": f"Mean of the ranks on {count} datasets; {level} interval over {answer['uncertainty']}",
    }
    alone = None if several else data["metrics"].get(f"{answer['datasets'][0]}|{probe}")
    if alone is not None:
        metric, higher, units, unit = alone
        parameters |= {
            "measure": f"{metric} on {answer['datasets'][0]}",
            "higher": higher,
            "how": f"{level} interval over {units} {unit}s",
        }
    found = {}
    for name, (title, _, spec) in drawn.items():
        if (name == "critical" and not tests) or (name == "probes" and not tables["agreement"]):
            continue
        found[name] = {
            **spec,
            "config": {**spec["config"], "font": FONT},
            "width": _WIDTH,
            "background": "white",
            "title": {"text": f"{title}, {probe}", "anchor": "start"},
            "datasets": tables,
            "params": [{**one, "value": parameters[one["name"]]} for one in spec["params"]],
        }
    return found


def _points(data: dict, group: str) -> list[dict]:
    """A row for each backbone and probe."""
    facts = {one["name"]: one for one in data["backbones"]}
    points = []
    for probe, answer in data["standings"][group].items():
        first = answer["rows"][0]
        alone = _of_dataset(data, answer["datasets"], probe)
        for row in answer["rows"]:
            score, lower, upper = alone.get(row["backbone"], row["mean_rank"])
            speed = facts[row["backbone"]]["throughput"]
            letters = row["letters"] or ""
            points.append(
                {
                    "backbone": row["backbone"],
                    "probe": probe,
                    "score": score,
                    "lower": lower,
                    "upper": upper,
                    "rank": row["rank"],
                    "letters": letters,
                    "alike": row["rank"] == first["rank"]
                    or bool(letters_in(letters) & letters_in(first["letters"])),
                    "parameters": facts[row["backbone"]]["parameters"],
                    "ms": 1000 / speed if speed else None,
                }
            )
    return points


def _of_dataset(data: dict, datasets: list[str], probe: str) -> dict[str, list]:
    """Backbone to score and interval on the only dataset; empty if there are several."""
    if len(datasets) != 1:
        return {}
    cells = data["cells"]
    return {
        data["backbones"][cells["backbone"][at]]["name"]: [
            cells[name][at] for name in ("value", "lower", "upper")
        ]
        for at, place in enumerate(cells["dataset"])
        if data["datasets"][place]["name"] == datasets[0]
        and data["probes"][cells["probe"][at]] == probe
    }


def _diagram(points: list[dict], tests: dict | None) -> dict[str, list[dict]]:
    """Rows of the critical-difference diagram: leaders, better half on the left, and bars."""
    if tests is None:
        return {"leaders": [], "bars": []}
    ranked = sorted(
        (one for one in points if one["score"] is not None),
        key=lambda one: (one["score"], one["backbone"]),
    )
    half = -(-len(ranked) // 2)
    scores = {one["backbone"]: one["score"] for one in ranked}
    cliques = [[name for name in one if name in scores] for one in tests["cliques"]]
    cliques = [one for one in cliques if len(one) > 1]
    return {
        "leaders": [
            {**one, "left": at < half, "row": at + 1 if at < half else len(ranked) - at}
            for at, one in enumerate(ranked)
        ],
        "bars": [
            {
                "row": at - len(cliques),
                "low": scores[names[0]],
                "high": scores[names[-1]],
                "said": f"{', '.join(names)} do not differ significantly: mean ranks within the critical difference"
                f" {tests['difference']} (Nemenyi).",
            }
            for at, names in enumerate(cliques)
        ],
    }
