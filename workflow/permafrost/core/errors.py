"""The one kind of error that a user is meant to read."""

from __future__ import annotations

import difflib

from permafrost.core.text import LONGEST_LINE, printable, printable_name, shortened

# characters of a name that is compared with others
_LONGEST_NAME = 200
# letters of a part of a name that says something
_SHORTEST_PART = 3
_MOST_NEAR, _MOST_LISTED = 4, 12


class PermafrostError(Exception):
    """Something the user can put right.

    Parameters
    ----------
    problem : what is wrong, in one sentence without a full stop.
    where : the file and the entry in it, e.g. ``config/backbones/timm.yaml: resnet50.input.size``.
    remedy : what to do about it, in one sentence without a full stop.

    They may hold names of any kind: as a text, what a terminal would obey is escaped and what is very
    long is shortened (`text.printable`). The attributes hold them in full.
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
    """Errors cross process borders (worker pools), so they must survive pickling."""
    return kind(problem, where=where, remedy=remedy)


def first_line(error: BaseException, *, named: bool = False) -> str:
    """What a foreign error says, in one line; its type if it says nothing, or before it if `named`."""
    name = type(error).__name__
    said = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    return f"{name}: {said}" if named and said else said or name


def near_names(name: str, known, *, listing: str | None = None) -> str:
    """``did you mean 'x'?`` or the list of what exists, to end an error about an unknown name.

    Parameters
    ----------
    listing : the commands that list them; where they are many, it is named in place of the list.
    """
    name = shortened(str(name), _LONGEST_NAME)
    known = sorted(shortened(str(other), _LONGEST_NAME) for other in known)
    # names that differ only in case or signs are the nearest of all; a typing error is nearer than a part of a name
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
    """The value of `name` in the mapping `known`, or `name` itself where `known` only lists names.

    Raises
    ------
    PermafrostError : `known` has no such name: `problem`, the name, and the names near to it.
    """
    if name not in known:
        raise PermafrostError(
            f"{problem} {name!r}, {near_names(str(name), known)}", where=where, remedy=remedy
        )
    return known[name] if hasattr(known, "keys") else name


def holds_name(text: str, part: str) -> bool:
    """Whether `part` is a part of `text`, upper and lower case and signs between letters left aside."""
    part = _letters(part)
    return len(part) >= _SHORTEST_PART and part in _letters(text)


def _letters(text: str) -> str:
    return "".join(letter for letter in text.lower() if letter.isalnum())
