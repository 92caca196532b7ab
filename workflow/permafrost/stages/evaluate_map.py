"""``permafrost evaluate-map``: accuracy of a map and areas of its classes, from reference points."""

from __future__ import annotations

from pathlib import Path

from permafrost.core.errors import PermafrostError
from permafrost.stages import standalone
from permafrost.stages.lists import names_of

_OPTIONS = {
    "--map": ("raster of class codes; without it the samples have a column map", Path),
    "--against": (
        "another raster, compared at the same points; a column against does the same",
        Path,
    ),
    "--strata-areas": ("table of stratum and area (default: the classes of --map)", Path),
    "--area-unit": ("unit of --strata-areas: m2, ha, km2 or share",),
    "--columns": ("columns with other names: x=lon,y=lat,reference=class",),
    "--crs": ("coordinate system of x and y, if the samples do not say: EPSG:4326",),
    "--class-names": ("names of the codes from 0 on: a,b, or of some codes: 1=a,4=b",),
    "--one-based": ("the names of --class-names begin with code 1", bool),
    "--band": ("band of the rasters, from 1", int),
    "--outside": ("points outside of the map or on its nodata: error, or drop (counted)", "error"),
    "--duplicates": ("points with equal x and y: error, or keep", "error"),
}


def add_arguments(parser) -> None:
    parser.add_argument(
        "--samples",
        type=Path,
        required=True,
        help="CSV, parquet, GeoJSON or GeoPackage of points: x, y, reference",
    )
    parser.add_argument(
        "--design",
        required=True,
        help="how they were drawn: simple; stratified (column stratum, else the classes of the map); or probabilities"
        " (column weight or inclusion_probability)",
    )
    standalone.add_options(parser, _OPTIONS)
    standalone.add_arguments(parser)


@standalone.bounded
def run(arguments) -> None:
    from permafrost.evaluators.map_accuracy import evaluate
    from permafrost.evaluators.map_accuracy.evaluate import read_areas
    from permafrost.evaluators.map_accuracy.samples import read_samples

    standalone.check_used(
        arguments,
        ("area_unit", arguments.strata_areas is not None, "with --strata-areas"),
        ("one_based", arguments.class_names is not None, "with --class-names"),
        ("band", arguments.map is not None, "with --map"),
    )
    standalone.check_intervals(arguments)
    standalone.check_files(arguments, "samples", "map", "against", "strata_areas")
    columns = _columns(arguments.columns)
    table = read_samples(arguments.samples, columns=columns, crs=arguments.crs)
    found = evaluate(
        table,
        arguments.map,
        design=arguments.design,
        against=arguments.against or table.has("against") or None,
        strata_areas=arguments.strata_areas and read_areas(arguments.strata_areas),
        area_unit=arguments.area_unit,
        class_names=_names(arguments),
        band=arguments.band,
        outside=arguments.outside,
        duplicates=arguments.duplicates,
    )
    _write(arguments, found)


def _pairs(text: str, option: str) -> dict[str, str]:
    pairs = [part.partition("=") for part in names_of(text)]
    if not all(key and value for key, _, value in pairs) or len({key for key, *_ in pairs}) < len(
        pairs
    ):
        raise PermafrostError(
            f"{option} {text!r} is not name=value,name=value", remedy="correct it"
        )
    return {key.strip(): value.strip() for key, _, value in pairs}


def _columns(text: str | None) -> dict[str, str]:
    return {} if text is None else _pairs(text, "--columns")


def _names(arguments) -> dict[int, str] | None:
    text = arguments.class_names
    if text is None:
        return None
    if "=" not in text:
        return dict(enumerate(names_of(text), start=int(arguments.one_based)))
    standalone.check_used(arguments, ("one_based", False, "with names without codes"))
    pairs = _pairs(text, "--class-names")
    if not all(code.removeprefix("-").isdecimal() for code in pairs):
        raise PermafrostError(
            f"--class-names {text!r} has a code that is not a whole number", remedy="give 1=a,4=b"
        )
    return {int(code): name for code, name in pairs.items()}


def _write(arguments, found) -> None:
    from permafrost.evaluators.map_accuracy.result import confusion_table, error_table
    from permafrost.evaluators.output import map_text, score_files, score_text

    rows = found.rows(
        **{name: getattr(arguments, name) for name in ("confidence", "resamples", "seed")}
    )
    notes = [*found.notes(), *score_text.gate_remarks(rows)]
    lines = map_text.accuracy_lines(found, rows, confidence=arguments.confidence)
    tables, more = {}, {}
    if arguments.tables:
        tables = {"confusion": confusion_table(found), "estimates": error_table(rows)}
    if found.against is not None:
        more["comparison"] = found.differences(confidence=arguments.confidence)
        more["mcnemar"] = found.mcnemar()
        against = arguments.against or "the column against"
        lines += map_text.comparison_lines(more["comparison"], against, more["mcnemar"])
        if arguments.tables:
            tables["comparison"] = score_files.comparison_table(more["comparison"])
    standalone.deliver(
        arguments,
        lines + score_text.note_lines(notes),
        rows=rows,
        tables=tables,
        page=lambda: _parts(arguments, found),
        options=standalone.options_of(arguments, "samples", "map", "against", "strata_areas"),
        classes=list(found.names),
        points_reference_by_map=found.counts.tolist(),
        area_shares_reference_by_map=found.shares.tolist(),
        area_m2=found.square_metres,
        strata=dict(zip(found.design.strata, found.design.sizes.tolist(), strict=True)),
        dropped=found.dropped,
        **more,
        n_units=len(found.design.home),
        unit="point" if len(found.design.home) == len(found.mapped) else "group",
        notes=notes,
    )


def _parts(arguments, found):
    from permafrost.evaluators.output.map_page import map_sections
    from permafrost.evaluators.output.page import Parts

    files = arguments.map or "the column map", arguments.against or "the column against"
    primary = ("overall_accuracy",)
    return Parts("Accuracy of a map", f"{found.heading()}.", primary, files, map_sections(found))
