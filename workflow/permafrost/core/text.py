"""Make text from data (names, ids, paths) safe and short for terminals and error messages."""

from __future__ import annotations

import unicodedata

# longest line of a message, and longest name in it, in characters; files keep both in full
LONGEST_LINE = 1000
LONGEST_NAME = 60
# zero-width joiners: format characters that the spelling of some scripts needs
_JOINERS = "\u200c\u200d"
_CONTROL = ("Cc", "Cs", "Zl", "Zp")


def printable(text: str, longest: int = LONGEST_LINE) -> str:
    """`text` without control characters, in lines of at most `longest` characters.

    Control characters (which begin escape sequences), direction marks and other invisible format
    characters, and lone surrogates become backslash escapes. Line ends stay.
    """
    lines = (_escaped(shortened(line, longest)) for line in text.split("\n"))
    return "\n".join(shortened(line, longest) for line in lines)


def printable_name(name, longest: int = LONGEST_NAME) -> str:
    """``str(name)`` as one line of at most `longest` characters; see `printable`."""
    return printable(shortened(str(name), longest).replace("\n", "\\n"), longest)


def shortened(text: str, longest: int) -> str:
    """`text` cut to `longest` characters by an ellipsis; keeps the end, where numbers often are."""
    if len(text) <= longest:
        return text
    end = (longest - 1) // 3
    return f"{text[: longest - 1 - end]}…{text[len(text) - end :]}"


#: units of sizes, each 1000 times the one before
_UNITS = ("bytes", "kB", "MB", "GB", "TB")


def bytes_words(count: float) -> str:
    """A number of bytes in decimal units: ``2.07 GB``."""
    for unit in _UNITS[:-1]:
        if count < 999.5:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} {_UNITS[-1]}"


def bytes_of(words: str) -> float:
    """The number of bytes of a size such as ``500 GB``, with or without a space."""
    return float(words[:-2]) * 1000.0 ** _UNITS.index(words[-2:])


def _escaped(line: str) -> str:
    if line.isprintable():
        return line
    return "".join(map(_escape, line))


def _escape(character: str) -> str:
    category = unicodedata.category(character)
    if category in _CONTROL or (category == "Cf" and character not in _JOINERS):
        return character.encode("unicode_escape").decode()
    return character
