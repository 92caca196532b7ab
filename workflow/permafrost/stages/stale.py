"""``permafrost stale``: list or delete results that do not belong to the current plan."""

from __future__ import annotations

from pathlib import Path

from permafrost.plan.recorded import current_plan


def add_arguments(parser) -> None:
    parser.add_argument(
        "--plan", type=Path, help="recorded plan (default: the newest in RESULTS/plans)"
    )
    parser.add_argument(
        "--results", type=Path, default=Path("results"), help="folder of the outputs"
    )
    parser.add_argument(
        "--deep", action="store_true", help="also read every file of stores and masks"
    )
    parser.add_argument("--delete", action="store_true", help="delete the listed files")


def run(arguments) -> None:
    from permafrost.operate.stale import delete, find_stale, mixed_versions, outdated

    plan = arguments.plan or current_plan(arguments.results)
    stale = find_stale(plan, arguments.results, deep=arguments.deep)
    known = {path for path, _ in stale}
    stale += [one for one in outdated(plan, arguments.results, Path.cwd()) if one[0] not in known]
    for path, reason in stale:
        print(f"{'deleted' if arguments.delete else 'stale'}: {path} ({reason})")
    mixture = mixed_versions(plan, arguments.results)
    if mixture:
        print(f"mixed versions: results of one plan were computed with {mixture}")
    if arguments.delete:
        delete(path for path, _ in stale)
    if not stale:
        print(f"everything under {arguments.results} belongs to the plan {plan.stem[:12]}")
