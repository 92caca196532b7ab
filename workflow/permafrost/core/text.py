"""Text that came with the data (names, ids, paths) as it may be shown on a terminal and in errors."""

from __future__ import annotations

import unicodedata

# characters of a line of a message, and of a name in it; files hold both in full
LONGEST_LINE = 1000
LONGEST_NAME = 60
# joiners, which are format characters too, but which words of some scripts are spelt with
_JOINERS = "\u200c\u200d"
_CONTROL = ("Cc", "Cs", "Zl", "Zp")


def printable(text: str, longest: int = LONGEST_LINE) -> str:
    """`text` for people: without what a terminal would obey, and in lines of at most `longest` characters.

    Control characters (escape sequences begin with one), Unicode's direction marks and other invisible
    format characters, and halves of surrogate pairs become backslash escapes. Only ends of lines stay.
    """
    lines = (_escaped(shortened(line, longest)) for line in text.split("\n"))
    return "\n".join(shortened(line, longest) for line in lines)


def printable_name(name, longest: int = LONGEST_NAME) -> str:
    """A name, or anything with a text, as one line of at most `longest` characters; see `printable`."""
    return printable(shortened(str(name), longest).replace("\n", "\\n"), longest)


def shortened(text: str, longest: int) -> str:
    """`text` shortened by an ellipsis, with its end kept, because numbers are at the end."""
    if len(text) <= longest:
        return text
    end = (longest - 1) // 3
    return f"{text[: longest - 1 - end]}…{text[len(text) - end :]}"


def bytes_words(count: float) -> str:
    """A number of bytes for people, in decimal units: ``2.07 GB``."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 999.5:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"


def _escaped(line: str) -> str:
    if line.isprintable():
        return line
    return "".join(map(_escape, line))


def _escape(character: str) -> str:
    category = unicodedata.category(character)
    if category in _CONTROL or (category == "Cf" and character not in _JOINERS):
        return character.encode("unicode_escape").decode()
    return character
