"""Assess a map with reference points: the entry point of this package."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from permafrost.core.errors import PermafrostError, look_up
from permafrost.core.text import printable_name
from permafrost.evaluators.map_accuracy.design import (
    DESIGNS,
    PROBABILITIES,
    STRATIFIED,
    make_design,
)
from permafrost.evaluators.map_accuracy.mapped import NODATA, OUTSIDE, Mapped, read_map
from permafrost.evaluators.map_accuracy.result import MapAccuracy
from permafrost.evaluators.map_accuracy.samples import Samples, label_text, read_samples

#: unit of given areas -> square metres; shares have no size
UNITS = {"m2": 1.0, "ha": 10_000.0, "km2": 1_000_000.0, "share": None}
CHOICES = {"outside": ("error", "drop"), "duplicates": ("error", "keep")}


def evaluate(
    samples,
    classified=None,
    *,
    design: str,
    against=None,
    strata_areas: dict | None = None,
    area_unit: str | None = None,
    class_names: dict[int, str] | None = None,
    columns: dict[str, str] | None = None,
    crs: str | None = None,
    band: int | None = None,
    outside: str = "error",
    duplicates: str = "error",
) -> MapAccuracy:
    """Accuracy of a map and areas of its classes, from reference points.

    Parameters
    ----------
    samples : table of points (`samples.read_samples`): ``x``, ``y``, ``reference``, and as the design needs
        ``stratum``, ``weight`` or ``inclusion_probability``; optional ``group``, points that were drawn together.
        Without `classified`, ``map`` instead of ``x`` and ``y``.
    classified : raster of class codes.
    design : ``simple``, a simple random or systematic sample; ``stratified``, one within each stratum, or a simple one
        that is to be poststratified by the map's classes; ``probabilities``, points with known inclusion probabilities.
    against : another raster, or True for the column ``against`` of the samples, to compare at the same points.
    strata_areas : stratum -> area; without it, strata are the map's classes, and have their areas in `classified`.
    area_unit : of `strata_areas`, see `UNITS`.
    class_names : code -> name of a class.
    columns, crs : see `samples.read_samples`.
    band : of `classified` and `against`, from 1.
    outside : points outside of a map or on its nodata: ``error``, or ``drop``, which counts them.
    duplicates : points with equal x and y: ``error``, or ``keep``, which counts each as drawn.

    Raises
    ------
    PermafrostError : see `samples` and `mapped`; an unknown class; strata and areas that do not fit; weights that are
        not above 0, inclusion probabilities outside of (0, 1].
    """
    look_up(DESIGNS, design, "a sampling design cannot be", where="design")
    for name, value in (("outside", outside), ("duplicates", duplicates)):
        look_up(CHOICES[name], value, f"{name} cannot be", where=name)
    table = samples
    if not isinstance(samples, Samples):
        table = read_samples(samples, columns=columns, crs=crs)
    if classified is not None and table.has("map"):
        raise PermafrostError(
            "the samples have a column 'map', and a map is given as a raster",
            where=table.where,
            remedy="give one of both",
        )
    _check_names(class_names)
    _check_duplicates(table, duplicates)
    paths = [classified, None if against in (None, True) else against]
    table, maps, dropped = _at_points(table, paths, band, outside)
    classes = _Classes(class_names, coded=any(one is not None for one in maps), where=table.where)
    reference = classes.labels(table, "reference")
    mapped = classes.mapped(table, maps[0], "map")
    other = None
    if against is not None:
        other = classes.mapped(table, maps[1], "against")
    plan, metres, of_map = _design(table, design, maps[0], mapped, classes, strata_areas, area_unit)
    found = {*reference, *mapped, *(() if other is None else other)}
    names = classes.ordered(
        found | ({classes.name(code) for code in maps[0].areas} if maps[0] else set())
    )
    number = {name: place for place, name in enumerate(names)}
    column_of = number if of_map else None
    return MapAccuracy(
        names=names,
        reference=np.array([number[name] for name in reference]),
        mapped=np.array([number[name] for name in mapped]),
        against=None if other is None else np.array([number[name] for name in other]),
        design=make_design(design, **plan, count=len(table), column_of=column_of),
        kind=design,
        square_metres=metres,
        dropped=dropped,
        remarks=tuple(_remarks(table, maps[0], design, strata_areas)),
    )


def _check_names(names: dict[int, str] | None) -> None:
    given = list((names or {}).values())
    if twice := sorted({name for name in given if given.count(name) > 1}):
        raise PermafrostError(
            f"two codes have the name {', '.join(map(repr, twice))}",
            where="class names",
            remedy="give each code a name of its own, or join the codes in the map",
        )


def _check_duplicates(table: Samples, rule: str) -> None:
    if rule == "keep" or not (table.has("x") and table.has("y")):
        return
    points = np.stack([table.numbers("x"), table.numbers("y")], axis=1)
    _, first, place = np.unique(points, axis=0, return_index=True, return_inverse=True)
    table.refuse(
        first[place.ravel()] != np.arange(len(points)),
        "lie where another sample lies",
        "remove them; if points were drawn with replacement, keep them (--duplicates keep)",
    )


def _at_points(table: Samples, paths: list, band: int | None, outside: str):
    """The points that are left, what each raster says of them (None without one), and how many were left out."""
    maps = [None if path is None else read_map(path, table, band=band) for path in paths]
    dropped: dict[str, int] = {}
    kept = np.ones(len(table), bool)
    for one in maps:
        for reason in (OUTSIDE, NODATA):
            bad = np.zeros(len(table), bool) if one is None else one.state == reason
            if outside == "error":
                table.refuse(bad, reason, "remove them, or leave them out (--outside drop)")
            bad &= kept
            if bad.any():
                text = f"{reason} ({table.rows(bad)})"
                dropped[text] = int(bad.sum())
            kept &= ~bad
    if not kept.any():
        raise PermafrostError(
            "no sample lies on the map", where=table.where, remedy="check places and nodata"
        )
    return table.take(kept), [None if one is None else _taken(one, kept) for one in maps], dropped


def _taken(one: Mapped, kept: np.ndarray) -> Mapped:
    return replace(one, code=one.code[kept], state=one.state[kept])


@dataclass(frozen=True)
class _Classes:
    """Names of classes.

    Attributes
    ----------
    given : code -> name, or None.
    coded : whether a raster gives codes.
    """

    given: dict[int, str] | None
    coded: bool
    where: str

    def name(self, code: int) -> str:
        """The name of a code of a raster."""
        if self.given is None:
            return str(code)
        if code not in self.given:
            raise PermafrostError(
                f"the map holds the code {code}, which has no name",
                where="class names",
                remedy=f"name the codes of the map; named are {', '.join(map(str, self.given))}",
            )
        return self.given[code]

    def text(self, label: str) -> str | None:
        """The name of a class as a table writes it; None if it is unknown."""
        label = label_text(label)
        whole = _is_whole(label)
        if self.given is not None:
            return (
                label
                if label in self.given.values()
                else self.given.get(int(label))
                if whole
                else None
            )
        return label if whole or not self.coded else None

    def labels(self, table: Samples, role: str) -> list[str]:
        """(n,) names of a column."""
        texts = table.texts(role)
        names = [self.text(label) for label in texts]
        unknown = np.array([name is None for name in names])
        if unknown.any():
            listed = ", ".join(
                repr(printable_name(label)) for label in dict.fromkeys(texts[unknown])
            )
            known = "the map has codes: name them in their order (--class-names)"
            if self.given is not None:
                known = f"the classes are {', '.join(self.given.values())}"
            table.refuse(unknown, f"have an unknown {role} class {listed[:200]}", known)
        return names

    def mapped(self, table: Samples, one: Mapped | None, role: str) -> list[str]:
        """(n,) names of the classes of a map, from its raster or else from a column."""
        if one is None:
            return self.labels(table, role)
        return [self.name(code) for code in one.code.tolist()]

    def ordered(self, names: set[str]) -> tuple[str, ...]:
        if self.given is not None:
            return tuple(name for name in self.given.values() if name in names)
        whole = all(map(_is_whole, names))
        return tuple(sorted(names, key=int if whole else str))


def _is_whole(label: str) -> bool:
    return label.removeprefix("-").isdecimal()


def _design(
    table: Samples, kind: str, one: Mapped | None, mapped: list[str], classes: _Classes, given, unit
):
    """Arguments of `make_design`, the area in square metres (None: unknown), whether strata are the map's classes."""
    plan: dict = {"stratum": None, "areas": None, "weight": None}
    plan["group"] = table.texts("group") if table.has("group") else None
    whole = None if one is None or one.pixels else sum(one.areas.values())
    if kind == PROBABILITIES:
        plan["weight"] = _weights(table)
        plan["stratum"] = table.texts("stratum") if table.has("stratum") else None
        return plan, whole, False
    if kind != STRATIFIED:
        _unused(given, "strata areas")
        return plan, whole, False
    labels = np.array(mapped, object)
    if table.has("stratum"):
        labels = np.array([label_text(text) for text in table.texts("stratum")], object)
        labels = np.array([classes.text(label) or label for label in labels], object)
    own = labels == np.array(mapped, object)
    plan["stratum"] = labels
    if given is None:
        plan["areas"] = _areas_of_map(table, one, classes, own)
        return plan, whole, True
    look_up(UNITS, unit or "", "areas of strata need a unit; it cannot be", where="area unit")
    plan["areas"] = {
        classes.text(str(name)) or label_text(str(name)): float(area)
        for name, area in given.items()
    }
    factor = UNITS[unit]
    total = None if factor is None else factor * sum(plan["areas"].values())
    return plan, total, bool(own.all())


def _areas_of_map(
    table: Samples, one: Mapped | None, classes: _Classes, own: np.ndarray
) -> dict[str, float]:
    if one is None:
        raise PermafrostError(
            "a stratified design needs the areas of the strata",
            where=table.where,
            remedy="give them (--strata-areas), or the map as a raster, if its classes are the strata",
        )
    table.refuse(
        ~own,
        "have a stratum that is not the class of the map where they lie, so its areas are not those of the strata",
        "give the areas of the strata (--strata-areas)",
    )
    return {classes.name(code): area for code, area in one.areas.items()}


def _weights(table: Samples) -> np.ndarray:
    roles = [role for role in ("weight", "inclusion_probability") if table.has(role)]
    if len(roles) != 1:
        raise PermafrostError(
            "the design probabilities needs one of the columns weight and inclusion_probability,"
            f" the table has {len(roles)}",
            where=table.where,
            remedy="give one of them",
        )
    values = table.numbers(roles[0])
    table.refuse(values <= 0, f"have a {roles[0]} that is not above 0", "correct them")
    if roles[0] == "weight":
        return values
    table.refuse(
        values > 1,
        "have an inclusion probability above 1",
        "give probabilities, or weights in a column weight",
    )
    return 1 / values


def _unused(value, what: str) -> None:
    if value is not None:
        raise PermafrostError(
            f"{what} change nothing here: only the design stratified uses them",
            where="design",
            remedy="leave them out, or say design stratified",
        )


def _remarks(table: Samples, one: Mapped | None, kind: str, given) -> list[str]:
    said = []
    if one is not None and table.crs is None:
        said.append(
            "The samples name no coordinate system: x and y are taken as in that of the map (else give --crs)."
        )
    if one is not None and one.varying:
        said.append(
            one.varying.split(": all figures")[0]
            + ": areas are true areas; points count as drawn by area."
        )
    if kind != STRATIFIED and table.has("stratum") and kind != PROBABILITIES:
        said.append("The column stratum is not used: the design is simple.")
    if one is None and given is None or one is not None and one.pixels:
        said.append("The size of the area is not known, so areas are shares.")
    return said


def read_areas(path: Path) -> dict[str, float]:
    """Stratum -> area from a table with the columns ``stratum`` and ``area``.

    Raises
    ------
    PermafrostError : the file is missing or lacks a column; a stratum twice; an area that is not a number.
    """
    from permafrost.data.user_tables import columns_of

    remedy = "give a CSV with the columns stratum and area"
    table = columns_of(path, remedy=remedy)
    for name in ("stratum", "area"):
        look_up(table, name, "the table has no column", where=path)
    areas: dict[str, float] = {}
    for name, text in zip(table["stratum"], table["area"], strict=True):
        key = label_text(name or "")
        try:
            area = float(text or "")
        except ValueError as error:
            raise PermafrostError(
                f"the area {text!r} of the stratum {name!r} is not a number",
                where=path,
                remedy="correct it",
            ) from error
        if not key or key in areas:
            raise PermafrostError(
                f"the stratum {name!r} occurs twice" if key else "a stratum has no name",
                where=path,
                remedy=remedy,
            )
        areas[key] = area
    return areas
