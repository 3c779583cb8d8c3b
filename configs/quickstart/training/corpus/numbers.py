"""Tables of small sums, counting and comparisons, which are computed instead of written down."""

from collections.abc import Sequence

from corpus.grammar import Row

ONES = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
]
TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]


def word(number: int) -> str:
    """Return a number below one hundred in words."""
    if number < 20:
        return ONES[number]
    tens = TENS[number // 10 - 2]
    return tens if number % 10 == 0 else f"{tens}-{ONES[number % 10]}"


def sums() -> list[Row]:
    """Return additions and the subtractions that undo them, up to ten and ten."""
    return [
        {"x": word(x), "y": word(y), "total": word(x + y)}
        for x in range(1, 11)
        for y in range(1, 11)
    ]


def neighbours() -> list[Row]:
    """Return each number up to forty-nine with the one before, the one after and its double."""
    return [
        {"here": word(n), "before": word(n - 1), "after": word(n + 1), "double": word(2 * n)}
        for n in range(1, 50)
    ]


def counts() -> list[Row]:
    """Return short counts, such as from three to seven, upwards and downwards."""
    rows: list[Row] = []
    for first in range(1, 13):
        for last in range(first + 2, first + 7):
            steps = [word(n) for n in range(first, last + 1)]
            rows.append({"first": steps[0], "last": steps[-1], "steps": ", ".join(steps)})
            steps.reverse()
            rows.append({"first": steps[0], "last": steps[-1], "steps": ", ".join(steps)})
    return rows


def comparisons(animals: Sequence[Row]) -> list[Row]:
    """Return the pairs of animals of which one is clearly larger, by the column ``size``."""
    return [
        {"large": large["one"], "small": small["one"]}
        for large in animals
        for small in animals
        if int(large["size"]) >= int(small["size"]) + 2
    ]
