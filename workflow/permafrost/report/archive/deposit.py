"""A folder for Zenodo: archive, tables in open formats, checksums, and metadata for its API."""

from __future__ import annotations

import html
import json
import re
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

from permafrost import __version__
from permafrost.core.errors import PermafrostError
from permafrost.core.identity import file_digest
from permafrost.core.outputs import whole_directory

TABLES = ("leaderboard.csv", "standings.csv")
_KEYWORDS = ["remote sensing", "geospatial foundation models", "benchmark", "linear probing"]
_ORCID = re.compile(r"\d{4}-\d{4}-\d{4}-\d{3}[\dX]")
_README = """{title}

{archive}  all tables, predictions, figures, plan and locks, as a Workflow Run RO-Crate; `permafrost restore` unpacks it
{tables}
methods.txt, cited.bib  the methods as text and tables, and what to cite
SHA256SUMS  of all files: `sha256sum --check SHA256SUMS`
metadata.json  for Zenodo's deposit API

To upload: make a token with the scope deposit:write in your account, and
  curl -H "Authorization: Bearer $TOKEN" -H "Content-Type: application/json" -d @metadata.json https://zenodo.org/api/deposit/depositions
answers with the address of a bucket; each file goes there:
  curl -H "Authorization: Bearer $TOKEN" --upload-file FILE BUCKET/FILE
Look at the draft in your browser, then publish it there. https://sandbox.zenodo.org takes the same, to try.
"""


def write_deposit(
    folder,
    archive: Path,
    plan: Mapping,
    *,
    creators: Iterable[str],
    licence: str,
    methods: str,
    tables: str,
    cited: str,
) -> None:
    """Write the folder completely or not at all.

    Parameters
    ----------
    archive : the zip; it is copied.
    creators : ``Family, Given`` each, optionally followed by a semicolon and an ORCID.
    licence : of the results, by Zenodo's identifier, such as ``cc-by-4.0``.
    methods, tables, cited : the methods as text, their tables of datasets and options, and BibTeX.

    Raises
    ------
    PermafrostError : the folder exists and is not empty, or a creator cannot be read.
    """
    folder = Path(folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise PermafrostError("exists already", where=folder, remedy="name an empty or new folder")
    about = metadata(plan, creators, licence, methods)
    copied = [path for name in TABLES if (path := Path(plan["results"]) / name).exists()]
    with whole_directory(folder) as partial:
        for path in (archive, *copied):
            shutil.copy2(path, partial / path.name)
        (partial / "methods.txt").write_text(f"{methods}\n{tables}", encoding="utf-8")
        (partial / "cited.bib").write_text(cited, encoding="utf-8")
        said = {"title": about["title"], "archive": archive.name}
        said["tables"] = "\n".join(f"{path.name}  as in the archive" for path in copied)
        (partial / "README.txt").write_text(_README.format(**said), encoding="utf-8")
        whole = json.dumps({"metadata": about}, indent=2, ensure_ascii=False)
        (partial / "metadata.json").write_text(f"{whole}\n", encoding="utf-8")
        sums = [f"{file_digest(path)}  {path.name}\n" for path in sorted(partial.iterdir())]
        (partial / "SHA256SUMS").write_text("".join(sums), encoding="utf-8")


def metadata(plan: Mapping, creators: Iterable[str], licence: str, methods: str) -> dict:
    """The ``metadata`` object of Zenodo's deposit API, for a dataset.

    Source: https://developers.zenodo.org, Deposit metadata.
    """
    counts = [
        f"{len(plan[kind])} {kind if len(plan[kind]) > 1 else kind[:-1]}"
        for kind in ("backbones", "datasets", "probes")
    ]
    paragraphs = "".join(f"<p>{html.escape(one)}</p>" for one in methods.strip().split("\n\n"))
    return {
        "upload_type": "dataset",
        "title": f"Frozen geospatial backbones evaluated with Permafrost: {', '.join(counts)}",
        "creators": [_creator(text) for text in creators],
        "description": paragraphs,
        "access_right": "open",
        "license": licence.lower(),
        "keywords": _KEYWORDS,
        "notes": f"Made with Permafrost {__version__}, plan {plan['plan']}.",
    }


def _creator(text: str) -> dict[str, str]:
    name, _, orcid = (part.strip() for part in text.partition(";"))
    if not name or (orcid and not _ORCID.fullmatch(orcid)):
        raise PermafrostError(
            f"{text!r} names nobody" if not name else f"{orcid!r} is not an ORCID",
            where="--creator",
            remedy="write 'Family, Given' or 'Family, Given; 0000-0000-0000-0000'",
        )
    return {"name": name, **({"orcid": orcid} if orcid else {})}
