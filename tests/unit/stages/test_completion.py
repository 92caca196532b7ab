"""``permafrost completion``: shells take what it prints, and complete commands and options."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from permafrost.stages import commands
from permafrost.stages.cli import main


@pytest.fixture
def script(capsys):
    def of(shell: str) -> str:
        assert main(["completion", shell]) == 0
        return capsys.readouterr().out

    return of


def completed(script: str, *words: str) -> set[str]:
    """What bash offers for the last of the words."""
    program = f"""{script}
COMP_WORDS=({" ".join(f"'{word}'" for word in words)})
COMP_CWORD={len(words) - 1}
_shtab_permafrost
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    done = subprocess.run(["bash", "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return {line.strip() for line in done.stdout.splitlines()}


def test_bash_offers_commands_and_options_but_no_stages(script):
    text = script("bash")
    offered = completed(text, "permafrost", "")
    people = {name for name in commands.COMMANDS if name not in commands.STAGES}
    assert people | {*commands.ALIASES} <= offered and not offered & {*commands.STAGES}
    assert completed(text, "permafrost", "exp") == {"export"}
    assert {"--format", "--mark-tied"} <= completed(text, "permafrost", "export", "--")
    assert completed(text, "permafrost", "export", "--format", "la") == {"latex"}


@pytest.mark.parametrize(("shell", "check"), [("zsh", ["-n"]), ("fish", ["--no-execute"])])
def test_other_shells_can_read_it(script, tmp_path, shell, check):
    path = tmp_path / "script"
    path.write_text(script(shell))
    assert "mark-tied" in path.read_text()
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} on this machine")
    done = subprocess.run([shell, *check, path], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_another_shell_is_wrong_use(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["completion", "cmd"])
    assert stopped.value.code == 2
