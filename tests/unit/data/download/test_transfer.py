"""One file over HTTP, from a server on this machine that misbehaves."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import socket
from dataclasses import replace

import numpy as np
import pytest
from helpers.file_server import Served
from permafrost.core.errors import PermafrostError
from permafrost.data.download import transfer
from permafrost.data.download.steps import Get
from permafrost.data.download.transfer import fetch_file, remote_size

CONTENT = np.random.default_rng(0).bytes(3_000_001)
SHA256 = ("sha256", hashlib.sha256(CONTENT).hexdigest())
PART = 1_000_000


@pytest.fixture
def get(server, tmp_path):
    server.files["/data.zip"] = Served(CONTENT)
    return Get(f"{server.url}/data.zip", tmp_path / "new" / "data.zip", len(CONTENT), SHA256)


def only(get: Get) -> list[str]:
    return os.listdir(get.path.parent)


def test_a_file_comes_whole_and_leaves_nothing_beside_it(server, get):
    fetch_file(get)
    assert get.path.read_bytes() == CONTENT and only(get) == ["data.zip"]
    fetch_file(get)
    assert len(server.asked) == 1


def test_a_broken_connection_is_resumed_where_it_broke(server, get):
    server.files["/data.zip"].breaks_after = [PART, PART]
    fetch_file(get)
    assert get.path.read_bytes() == CONTENT
    assert server.gets() == [None, f"bytes={PART}-", f"bytes={2 * PART}-"]


def test_a_call_that_was_killed_is_resumed_by_the_next(server, get, monkeypatch):
    monkeypatch.setattr(transfer, "PAUSES_S", ())
    server.files["/data.zip"].breaks_after = [PART]
    with pytest.raises(PermafrostError, match="1 MB are kept") as caught:
        fetch_file(get)
    assert "resumes" in caught.value.remedy
    assert not get.path.exists() and len(only(get)) == 2
    fetch_file(get)
    assert get.path.read_bytes() == CONTENT and only(get) == ["data.zip"]
    assert server.gets() == [None, f"bytes={PART}-"]


def test_a_connection_that_goes_on_a_little_each_time_is_not_given_up(server, get):
    server.files["/data.zip"].breaks_after = [200_000] * 14
    fetch_file(get)
    assert get.path.read_bytes() == CONTENT and len(server.asked) == 15


def test_a_server_without_ranges_begins_anew_and_is_given_up_in_the_end(server, get):
    served = server.files["/data.zip"]
    served.ranges, served.breaks_after = False, [PART, PART // 2]
    fetch_file(get)
    assert get.path.read_bytes() == CONTENT and len(server.asked) == 3
    get.path.unlink()
    served.breaks_after = [PART] * 20
    with pytest.raises(PermafrostError, match="breaks off"):
        fetch_file(get)


@pytest.mark.parametrize("checksum", [SHA256, None])
def test_a_file_that_changed_meanwhile_is_begun_anew(server, get, monkeypatch, checksum):
    monkeypatch.setattr(transfer, "PAUSES_S", ())
    old = Served(CONTENT[::-1], etag='"old"', breaks_after=[PART])
    server.files["/data.zip"] = old
    get = Get(get.url, get.path, None, checksum)
    with pytest.raises(PermafrostError, match="breaks off"):
        fetch_file(get)
    server.files["/data.zip"] = Served(CONTENT, etag='"new"')
    fetch_file(get)
    assert get.path.read_bytes() == CONTENT


def test_a_part_of_a_version_that_nothing_names_is_kept_only_for_a_checksum(
    server, get, monkeypatch
):
    monkeypatch.setattr(transfer, "PAUSES_S", ())
    for checksum, second in ((SHA256, f"bytes={PART}-"), (None, None)):
        server.files["/data.zip"] = Served(CONTENT, etag=None, breaks_after=[PART])
        server.asked.clear()
        get = Get(get.url, get.path, None, checksum)
        with pytest.raises(PermafrostError, match="breaks off"):
            fetch_file(get)
        fetch_file(get)
        assert get.path.read_bytes() == CONTENT and server.gets() == [None, second]
        get.path.unlink()


def test_parts_of_two_versions_that_the_server_confuses_are_fetched_anew(server, get, monkeypatch):
    monkeypatch.setattr(transfer, "PAUSES_S", ())
    server.files["/data.zip"] = Served(CONTENT[::-1], etag=None, breaks_after=[PART])
    with pytest.raises(PermafrostError, match="breaks off"):
        fetch_file(get)
    server.files["/data.zip"] = Served(CONTENT, etag=None)
    fetch_file(get)
    assert get.path.read_bytes() == CONTENT
    assert server.gets() == [None, f"bytes={PART}-", None]


def test_a_part_of_another_place_is_never_put_behind_the_first(server, get):
    served = server.files["/data.zip"]
    served.foreign_part, served.breaks_after = True, [PART]
    fetch_file(get)
    assert get.path.read_bytes() == CONTENT


def test_a_part_that_is_longer_than_the_file_is_begun_anew(server, get):
    get = Get(get.url, get.path)
    get.path.parent.mkdir()
    partial = get.path.with_name(".data.zip.download")
    partial.write_bytes(CONTENT + b"more")
    note = {"url": get.url, "version": server.files["/data.zip"].etag}
    partial.with_name(".data.zip.download.json").write_text(json.dumps(note))
    fetch_file(get)
    assert get.path.read_bytes() == CONTENT
    get = Get(get.url, get.path, None, SHA256)
    get.path.unlink()
    # complete, but not yet in its place
    partial.write_bytes(CONTENT)
    server.asked.clear()
    fetch_file(get)
    assert get.path.read_bytes() == CONTENT and len(server.asked) == 1


@pytest.mark.parametrize("algorithm", ["md5", "sha256"])
def test_a_wrong_checksum_leaves_nothing(get, algorithm):
    wrong = Get(get.url, get.path, None, (algorithm, "0" * 32))
    with pytest.raises(PermafrostError, match=f"its {algorithm} is .* and not 0000") as caught:
        fetch_file(wrong)
    assert caught.value.where == str(get.path) and only(get) == []


def test_a_file_that_is_there_is_checked_and_never_replaced(server, get):
    get.path.parent.mkdir()
    get.path.write_bytes(b"mine")
    with pytest.raises(PermafrostError, match="has 4 bytes, and not 3000001") as caught:
        fetch_file(get)
    assert "delete the file" in caught.value.remedy
    assert get.path.read_bytes() == b"mine" and server.asked == []


def test_a_server_whose_file_is_too_short_is_refused_before_it_is_read(server, get):
    server.files["/data.zip"].content = CONTENT[:-1]
    with pytest.raises(PermafrostError, match="server's file has 3000000 bytes"):
        fetch_file(get)
    assert only(get) == []


def test_a_server_that_gives_less_than_it_declares_is_given_up(server, get):
    get = Get(get.url, get.path)
    server.files["/data.zip"] = Served(CONTENT, length=len(CONTENT) + 5, ranges=False)
    with pytest.raises(PermafrostError, match="3000001 of 3000006 bytes"):
        fetch_file(get)
    assert not get.path.exists()


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_busy_server_is_asked_again(server, get, status):
    server.files["/data.zip"].statuses = [status, status]
    fetch_file(get)
    assert get.path.read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("status", "problem", "remedy"),
    [
        (401, "denies access", "HF_TOKEN"),
        (403, "denies access", "terms"),
        (404, "no such file", "find the new address"),
    ],
)
def test_a_refusal_is_final_and_says_what_to_do(server, get, status, problem, remedy):
    server.files["/data.zip"].statuses = [status] * 9
    with pytest.raises(PermafrostError, match=problem) as caught:
        fetch_file(get)
    assert remedy in caught.value.remedy and str(get.path) in caught.value.remedy
    assert len(server.asked) == 1 and only(get) == []


def test_without_a_network_the_error_names_the_server(get, monkeypatch):
    monkeypatch.setattr(transfer, "PAUSES_S", (0.0,))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        nobody = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(PermafrostError, match=f"{nobody} cannot be reached.*refused") as caught:
            fetch_file(Get(f"http://{nobody}/data.zip", get.path))
    assert "machine with a network" in caught.value.remedy


def test_a_token_goes_to_its_own_server_only(server, get):
    fetch_file(Get(get.url, get.path, None, SHA256, token="secret"))
    assert server.asked[0][2]["Authorization"] == "Bearer secret"
    assert "secret" not in repr(Get(get.url, get.path, token="secret"))


def test_other_addresses_than_of_the_web_are_refused(get, tmp_path):
    local = tmp_path / "passwords"
    local.write_text("secret")
    with pytest.raises(PermafrostError, match="no web address"):
        fetch_file(Get(local.as_uri(), get.path))
    assert not get.path.exists()


def test_a_second_process_does_not_write_into_the_same_file(get):
    get.path.parent.mkdir()
    with open(get.path.with_name(".data.zip.download"), "ab") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(PermafrostError, match="another process is fetching"):
            fetch_file(get)


def test_the_size_is_asked_for_before(server, get):
    unknown = Get(get.url, get.path)
    assert remote_size(unknown) == len(CONTENT)
    server.files["/data.zip"].head = False
    assert remote_size(unknown) is None
    with pytest.raises(PermafrostError, match="no such file"):
        remote_size(Get(f"{server.url}/none.zip", get.path))
    assert {method for method, *_ in server.asked} == {"HEAD"}


@pytest.mark.parametrize("target", ["ftp://127.0.0.1:9/a", "file:///etc/passwd", "data:,x"])
def test_a_redirection_to_what_is_no_web_address_is_refused(server, get, target, monkeypatch):
    monkeypatch.setattr(transfer, "PAUSES_S", ())
    server.files["/data.zip"].redirects_to = target
    for ask in (fetch_file, lambda get: remote_size(replace(get, size=None))):
        with pytest.raises(
            PermafrostError, match="the server redirects to where nothing"
        ) as caught:
            ask(get)
        assert target in str(caught.value)
    assert not get.path.exists()


def test_a_redirection_to_a_web_address_is_followed(server, get):
    server.files["/moved.zip"] = Served(b"", redirects_to=f"{server.url}/data.zip")
    fetch_file(replace(get, url=f"{server.url}/moved.zip"))
    assert get.path.read_bytes() == CONTENT
