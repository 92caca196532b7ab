"""The error class for users, and hints for misspelled names."""

from __future__ import annotations

import difflib

from permafrost.core.text import LONGEST_LINE, printable, printable_name, shortened

# names are cut to this length before they are compared
_LONGEST_NAME = 200
# shorter parts of a name match too many names
_SHORTEST_PART = 3
_MOST_NEAR, _MOST_LISTED = 4, 12


class PermafrostError(Exception):
    """An error that the user can correct.

    Parameters
    ----------
    problem : what is wrong, in one sentence without a full stop.
    where : the file and the entry in it, e.g. ``config/backbones/timm.yaml: resnet50.input.size``.
    remedy : what to do about it, in one sentence without a full stop.

    The message escapes control characters and shortens long texts (`text.printable`), since names
    can come from data. The attributes keep the full texts.
    """

    def __init__(self, problem: str, *, where: object = None, remedy: str | None = None) -> None:
        self.problem = problem
        self.where = None if where is None else str(where)
        self.remedy = remedy
        super().__init__(self.__str__())

    def __str__(self) -> str:
        place = f"{printable_name(self.where, LONGEST_LINE)}: " if self.where else ""
        problem = printable(self.problem)
        # a problem may end in a question: did you mean …?
        stop = "" if problem.endswith("?") else "."
        remedy = f"{stop} Remedy: {printable(self.remedy)}" if self.remedy else ""
        return f"{place}{problem}{remedy}"

    def __reduce__(self):
        return (_rebuild, (type(self), self.problem, self.where, self.remedy))


def _rebuild(kind: type[PermafrostError], problem: str, where: str | None, remedy: str | None):
    """Unpickle an error: errors of worker processes are pickled."""
    return kind(problem, where=where, remedy=remedy)


def first_line(error: BaseException, *, named: bool = False) -> str:
    """First line of the message of any error; its type if that is empty, or before it if `named`."""
    name = type(error).__name__
    said = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    return f"{name}: {said}" if named and said else said or name


def near_names(name: str, known, *, listing: str | None = None) -> str:
    """``did you mean 'x'?`` or the list of `known` names, to end an error about an unknown name.

    Parameters
    ----------
    listing : the command that lists the names; it replaces a list of more than 12.
    """
    name = shortened(str(name), _LONGEST_NAME)
    known = sorted(shortened(str(other), _LONGEST_NAME) for other in known)
    # nearest first: other case or punctuation, then a typing error, then a part of a name
    close = [match for match in known if _letters(match) == _letters(name)]
    close = close or difflib.get_close_matches(name, known, n=3, cutoff=0.8)
    more = ""
    if not close:
        parts = sorted((match for match in known if holds_name(match, name)), key=len)
        close = parts[:_MOST_NEAR]
        more = f" ({len(parts) - len(close)} more hold {name!r})" if len(parts) > len(close) else ""
    close = close or difflib.get_close_matches(name, known, n=3, cutoff=0.6)
    if close:
        return "did you mean " + " or ".join(repr(match) for match in close) + "?" + more
    if listing is not None and len(known) > _MOST_LISTED:
        return f"nor one like it; {listing} names all {len(known)}"
    listed = ", ".join(known[:40]) + (f" and {len(known) - 40} more" if len(known) > 40 else "")
    return f"known: {listed or 'none'}"


def look_up(known, name, problem: str, *, where: object = None, remedy: str = "correct the name"):
    """The value of `name` in the mapping `known`, or `name` itself if `known` is a list of names.

    Raises
    ------
    PermafrostError : `known` lacks the name; the message is `problem`, the name and similar names.
    """
    if name not in known:
        raise PermafrostError(
            f"{problem} {name!r}, {near_names(str(name), known)}", where=where, remedy=remedy
        )
    return known[name] if hasattr(known, "keys") else name


def holds_name(text: str, part: str) -> bool:
    """Whether `text` contains `part` (3 letters or more), ignoring case and punctuation."""
    part = _letters(part)
    return len(part) >= _SHORTEST_PART and part in _letters(text)


def _letters(text: str) -> str:
    return "".join(letter for letter in text.lower() if letter.isalnum())
