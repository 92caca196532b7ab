"""Files in dataset repositories of the Hugging Face hub, or of the mirror in HF_ENDPOINT."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from urllib.parse import urlsplit

from permafrost.core.errors import PermafrostError, first_line
from permafrost.data.download.steps import Get

#: path of a file's URL on the hub
_ADDRESS = re.compile(r"/(?:datasets/)?[\w.-]+/[\w.-]+/resolve/[^/]+/.+")


def mirrored(url: str) -> str:
    """`url` on the mirror in HF_ENDPOINT if it is a file's URL on the hub; otherwise unchanged."""
    endpoint, parts = os.environ.get("HF_ENDPOINT", ""), urlsplit(url)
    if not endpoint or not _ADDRESS.fullmatch(parts.path):
        return url
    return f"{endpoint.rstrip('/')}{parts.path}"


def hub_files(item: dict, where: object) -> list[Get]:
    """The files of an item of an entry's ``download``, with the hub's sizes and checksums.

    Parameters
    ----------
    item : ``hub`` (owner/name), ``file`` or ``files`` (patterns), ``path``; ``revision``, ``sha256``, ``bytes``.

    Raises
    ------
    PermafrostError : no such repository or file, no network, or a file that differs from the
        entry's.
    """
    from huggingface_hub import get_token

    listed, path, gets = _listing(item, where), Path(item["path"]), []
    for name, (size, sha256) in sorted(listed.items()):
        for key, told in (("bytes", size), ("sha256", sha256)):
            if None not in (told, item.get(key)) and told != item[key]:
                raise PermafrostError(
                    f"{item['hub']} has another version of {name}: {key} is {told}, and not {item[key]}",
                    where=where,
                    remedy="pin the revision of the entry",
                )
        sha256 = item.get("sha256", sha256)
        gets.append(
            Get(
                _address(item, name),
                path if "file" in item else path / name,
                item.get("bytes", size),
                ("sha256", sha256) if sha256 else None,
                get_token(),
            )
        )
    return gets


def named_files(item: dict) -> list[Get]:
    """The files of an item by the entry alone: patterns unexpanded, sizes and checksums only if given there."""
    checksum = ("sha256", item["sha256"]) if "sha256" in item else None
    path = Path(item["path"])
    return [
        Get(
            _address(item, name),
            path if "file" in item else path / name,
            item.get("bytes"),
            checksum,
        )
        for name in item.get("files") or [item["file"]]
    ]


def _address(item: dict, name: str) -> str:
    from huggingface_hub import hf_hub_url

    return hf_hub_url(
        item["hub"],
        name,
        repo_type="dataset",
        revision=item.get("revision"),
        endpoint=os.environ.get("HF_ENDPOINT"),
    )


def _listing(item: dict, where: object) -> dict[str, tuple[int | None, str | None]]:
    """Name -> (size, SHA-256) of the item's files; the hub has the latter only for large files."""
    from huggingface_hub.errors import HfHubHTTPError

    patterns = item.get("files") or [item["file"]]
    try:
        found = {
            name: told
            for name, told in _all_files(item)
            if any(fnmatchcase(name, pattern) for pattern in patterns)
        }
    except HfHubHTTPError as error:
        raise PermafrostError(
            f"the hub denies access to {item['hub']} ({first_line(error)})",
            where=where,
            remedy="correct the name; for gated data, agree to the terms on their page, then name"
            " your token in HF_TOKEN or run `hf auth login`",
        ) from error
    # errors of the HTTP library without a network, and of the hub's library in offline mode
    except Exception as error:
        raise PermafrostError(
            f"the hub cannot be reached for {item['hub']} ({first_line(error, named=True)})",
            where=where,
            remedy="fetch on a machine with a network",
        ) from error
    if not found:
        raise PermafrostError(
            f"{item['hub']} has no file {', '.join(patterns)}",
            where=where,
            remedy="correct the entry",
        )
    return found


def _all_files(item: dict) -> Iterator[tuple[str, tuple[int | None, str | None]]]:
    from huggingface_hub import HfApi
    from huggingface_hub.hf_api import RepoFile

    tree = HfApi(endpoint=os.environ.get("HF_ENDPOINT")).list_repo_tree(
        item["hub"], recursive=True, revision=item.get("revision"), repo_type="dataset"
    )
    for entry in tree:
        if isinstance(entry, RepoFile):
            yield entry.path, (entry.size, entry.lfs.sha256 if entry.lfs else None)
