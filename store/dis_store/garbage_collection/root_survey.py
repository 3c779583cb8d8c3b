"""All named roots at once, and which of them are damaged."""

from collections.abc import Mapping
from dataclasses import dataclass

from dis_store.errors import DamagedRootError, IntegrityError
from dis_store.layout import Layout
from dis_store.roots import SUFFIX, Root, read_root, remedy


@dataclass(frozen=True)
class RootSurvey:
    """All named roots, by name: those that can be read, and what is wrong with the others."""

    good: Mapping[str, Root]
    damaged: Mapping[str, IntegrityError]


def survey_roots(layout: Layout) -> RootSurvey:
    """Read all named roots, and let the damaged ones stop nobody."""
    good: dict[str, Root] = {}
    damaged: dict[str, IntegrityError] = {}
    for path in sorted(layout.room("roots").glob(f"*{SUFFIX}")):
        name = path.name.removesuffix(SUFFIX)
        try:
            root = read_root(layout, name)
        except IntegrityError as error:
            damaged[name] = error
        else:
            if root is not None:
                good[name] = root
    return RootSurvey(good, damaged)


def read_roots(layout: Layout) -> dict[str, Root]:
    """Return all named roots, by name.

    Raises:
        IntegrityError: Records are damaged. Nobody may guess what they kept.
    """
    survey = survey_roots(layout)
    if len(survey.damaged) > 1:
        raise DamagedRootError(
            f"{len(survey.damaged)} roots are damaged",
            cause="\n".join(map(str, survey.damaged.values())),
            hint=remedy(list(survey.damaged)),
        )
    for error in survey.damaged.values():
        raise error
    return dict(survey.good)
