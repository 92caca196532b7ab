"""The one kind of error that a user is meant to read."""

from __future__ import annotations

from permafrost.core.text import LONGEST_LINE, printable, printable_name, shortened

# characters of a name that is compared with others
_LONGEST_NAME = 200


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


def near_names(name: str, known) -> str:
    """``did you mean 'x'?`` or the list of what exists, to end an error about an unknown name."""
    import difflib

    name = shortened(str(name), _LONGEST_NAME)
    known = sorted(shortened(str(other), _LONGEST_NAME) for other in known)
    # names that differ only in case are the nearest of all
    close = [match for match in known if match.lower() == name.lower()]
    close = close or difflib.get_close_matches(name, known, n=3, cutoff=0.6)
    if close:
        return "did you mean " + " or ".join(repr(match) for match in close) + "?"
    listed = ", ".join(known[:40]) + (f" and {len(known) - 40} more" if len(known) > 40 else "")
    return f"known: {listed or 'none'}"
