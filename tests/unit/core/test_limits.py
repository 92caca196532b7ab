"""A limit of threads, processes or addresses is named, whatever met it."""

from __future__ import annotations

import errno
import os
import resource
import threading

import pytest
from permafrost.core.environment import user_home
from permafrost.core.errors import PermafrostError
from permafrost.core.limits import limits_named
from permafrost.core.row_file import RowFile


@pytest.mark.parametrize(
    "error",
    [RuntimeError("can't start new thread"), OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))],
)
@pytest.mark.parametrize(
    ("limits", "said"),
    [((64, -1), "ulimit -u: 64 processes and threads"), ((-1, 1 << 30), "ulimit -v: 1.07 GB"),
     ((-1, -1), "pids.max")],
)  # fmt: skip
def test_the_limit_that_refuses_a_thread_is_named(monkeypatch, error, limits, said):
    held = dict(zip((resource.RLIMIT_NPROC, resource.RLIMIT_AS), limits, strict=True))
    monkeypatch.setattr(resource, "getrlimit", lambda which: (held[which], -1))
    with pytest.raises(PermafrostError, match="starts no more threads") as refused, limits_named():
        raise error
    assert said in str(refused.value) and refused.value.remedy


def test_other_errors_pass(monkeypatch):
    for error in (RuntimeError("other"), OSError(errno.ENOENT, "none")):
        with pytest.raises(type(error)) as passed, limits_named():
            raise error
        assert passed.value is error


def test_the_message_is_the_interpreters(monkeypatch):
    def refuse(*_, **__):
        raise RuntimeError("can't start new thread")

    name = "_start_joinable_thread" if hasattr(threading, "_start_joinable_thread") else None
    monkeypatch.setattr(threading, name or "_start_new_thread", refuse)
    with pytest.raises(PermafrostError, match="starts no more threads"), limits_named():
        threading.Thread(target=print).start()


def test_a_user_without_a_home_has_one_that_takes_no_files(monkeypatch):
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr("pathlib.Path.home", lambda: (_ for _ in ()).throw(RuntimeError("no home")))
    with pytest.raises(OSError):
        (user_home() / ".cache").mkdir(parents=True)


def test_rows_go_beside_the_results_if_tmpdir_does_not_exist(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path / "none"))
    assert RowFile(2, tmp_path).folder == tmp_path
    (tmp_path / "none").mkdir()
    assert RowFile(2, tmp_path).folder == tmp_path / "none"
