"""How a model's positions become angles: the frequencies that config.json asks for.

Frequencies are a matter of settings, not of data, so they are made with 50 decimal digits and
rounded once. They are functions of config.json alone. The one rule of transformers that is not,
`dynamic`, changes frequencies only beyond `max_position_embeddings`, where this engine does not go.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

from dis_derivations.engines.reference.config_values import (
    Config,
    count,
    flag,
    malformed,
    positive,
    refuse_unknown,
    unsupported,
)

_DIGITS = Context(prec=50)
_TWO_PI = Decimal("6.28318530717958647692528676655900576839433879875021164")
_ONE = Decimal(1)
_CONTEXT = "original_max_position_embeddings"

# Bounds that keep scores far from overflow, and everything away from subnormal numbers.
_LARGEST_FACTOR = Decimal(1024)
_LEAST_FREQUENCY = Decimal("1e-100")


@dataclass(frozen=True)
class Rotation:
    """The rotary embedding of a model.

    Attributes:
        frequencies: Radians by position, one for each pair of a head, the fastest first.
        factor: What cosines and sines are multiplied by.
    """

    frequencies: tuple[float, ...]
    factor: float = 1.0


def read_rotation(config: Config, head_size: int, context: int, default_theta: float) -> Rotation:
    """Return the rotary embedding that config.json describes, in the new spelling or the old.

    Args:
        config: The whole document.
        head_size: Numbers of one head.
        context: The model's context, which scaling starts from where nothing else is said.
        default_theta: The base where nothing else is said.

    Raises:
        UnfitEnvironmentError: Its type, or a parameter of it, is not known.
        InvalidInputError: A parameter is missing, malformed or contradicts another.
    """
    for key in ("rope_parameters", "rope_scaling"):
        if config.get(key) is not None and not isinstance(config[key], Mapping):
            raise malformed(key, "it must be an object or null")
    parameters = _joined(config)
    # Files from before rope_parameters call it rope_scaling: so do the messages about them.
    key = "rope_scaling" if config.get("rope_scaling") else "rope_parameters"
    kind = parameters.get("rope_type", "default")
    if not isinstance(kind, str) or kind not in _KINDS:
        raise unsupported(f"{key} of type {kind!r}", f"it knows {', '.join(_KINDS)}")
    known, scale = _KINDS[kind]
    refuse_unknown(key, parameters, {"rope_type", "rope_theta", "partial_rotary_factor", *known})
    for place in (parameters, config):
        if place.get("partial_rotary_factor") not in (None, 1):
            raise unsupported(f"partial_rotary_factor {place['partial_rotary_factor']!r}")
    theta = positive(
        parameters if "rope_theta" in parameters else config, "rope_theta", default_theta
    )
    if theta <= 1:
        raise malformed("rope_theta", f"it must be above 1, and is {theta}")
    plain = inverse_frequencies(theta, head_size)
    return scale(
        _Scaling(parameters, plain, Decimal(theta), _original(parameters, config, context))
    )


def inverse_frequencies(theta: float, head_size: int) -> list[Decimal]:
    """Return theta^(-2i/head_size) for i = 0 … head_size/2 - 1, to 50 digits."""
    logarithm = _DIGITS.ln(Decimal(theta))
    return [
        _DIGITS.exp(_DIGITS.divide(_DIGITS.multiply(logarithm, -2 * i), head_size))
        for i in range(head_size // 2)
    ]


def _joined(config: Config) -> dict[str, object]:
    """Return the parameters of both spellings together, the type under its new name."""
    joined: dict[str, object] = {}
    for key in ("rope_parameters", "rope_scaling"):
        parameters = dict(config.get(key) or {})
        old = parameters.pop("type", None)
        if old is not None:
            parameters.setdefault("rope_type", old)
        for name, value in parameters.items():
            if joined.setdefault(name, value) != value:
                raise malformed(key, f"its {name} is not that of rope_parameters")
    return joined


def _original(parameters: Config, config: Config, context: int) -> Decimal:
    """Return the context before scaling."""
    own = count(parameters, _CONTEXT, context)
    if config.get(_CONTEXT) not in (None, own):
        raise malformed(_CONTEXT, "config.json has it twice, with two values")
    return Decimal(own)


@dataclass(frozen=True)
class _Scaling:
    """What a rule of scaling works on."""

    parameters: Config
    plain: list[Decimal]
    theta: Decimal
    context: Decimal

    def factor(self) -> Decimal:
        value = positive(self.parameters, "factor")
        if value < 1:
            raise malformed("factor", f"positions are scaled by at least 1, and it is {value}")
        return Decimal(value)

    def number(self, key: str, default: float | None = None) -> Decimal:
        return Decimal(positive(self.parameters, key, default))


def _rounded(frequencies: list[Decimal], factor: Decimal = _ONE) -> Rotation:
    if not _DIGITS.divide(_ONE, _LARGEST_FACTOR) <= factor <= _LARGEST_FACTOR:
        raise malformed("attention_factor", f"{float(factor)} is no scale of attention")
    if frequencies[-1] < _LEAST_FREQUENCY:
        raise malformed("rope_theta", "the slowest pair would never turn")
    return Rotation(tuple(float(value) for value in frequencies), float(factor))


def _default(scaling: _Scaling) -> Rotation:
    return _rounded(scaling.plain)


def _linear(scaling: _Scaling) -> Rotation:
    factor = scaling.factor()
    return _rounded([_DIGITS.divide(value, factor) for value in scaling.plain])


def _dynamic(scaling: _Scaling) -> Rotation:
    scaling.factor()
    return _rounded(scaling.plain)


def _llama3(scaling: _Scaling) -> Rotation:
    """Divide slow frequencies by the factor, keep fast ones, blend those between."""
    factor, context = scaling.factor(), scaling.context
    low, high = scaling.number("low_freq_factor"), scaling.number("high_freq_factor")
    if low >= high:
        raise malformed("low_freq_factor", "it must be below high_freq_factor")

    def scaled(frequency: Decimal) -> Decimal:
        turns = _DIGITS.divide(_DIGITS.multiply(context, frequency), _TWO_PI)
        kept = _between(_DIGITS.divide(_DIGITS.subtract(turns, low), _DIGITS.subtract(high, low)))
        return _blend(frequency, factor, kept)

    return _rounded([scaled(frequency) for frequency in scaling.plain])


def _yarn(scaling: _Scaling) -> Rotation:
    """Blend by a ramp over the pairs, and sharpen attention."""
    factor = scaling.factor()
    low, high = _ramp(scaling)
    width = _DIGITS.subtract(high, low) if high != low else Decimal("0.001")

    def scaled(pair: int, frequency: Decimal) -> Decimal:
        interpolated = _between(_DIGITS.divide(_DIGITS.subtract(Decimal(pair), low), width))
        return _blend(frequency, factor, _DIGITS.subtract(_ONE, interpolated))

    frequencies = [scaled(pair, frequency) for pair, frequency in enumerate(scaling.plain)]
    return _rounded(frequencies, _attention_factor(scaling, factor))


def _ramp(scaling: _Scaling) -> tuple[Decimal, Decimal]:
    """Return the pairs between which the ramp of yarn rises."""
    size, context = 2 * len(scaling.plain), scaling.context
    slope = _DIGITS.divide(Decimal(size), _DIGITS.multiply(Decimal(2), _DIGITS.ln(scaling.theta)))

    def pair_with(turns: Decimal) -> Decimal:
        ratio = _DIGITS.divide(context, _DIGITS.multiply(turns, _TWO_PI))
        return _DIGITS.multiply(slope, _DIGITS.ln(ratio))

    fast, slow = scaling.number("beta_fast", 32.0), scaling.number("beta_slow", 1.0)
    if fast < slow:
        raise malformed("beta_fast", "it must not be below beta_slow")
    low, high = pair_with(fast), pair_with(slow)
    if flag(scaling.parameters, "truncate", default=True):
        low = low.to_integral_value(ROUND_FLOOR)
        high = high.to_integral_value(ROUND_CEILING)
    low, high = max(low, Decimal(0)), min(high, Decimal(size - 1))
    if low > high:
        raise malformed("beta_slow", "with this context no pair of a head lies between the betas")
    return low, high


def _attention_factor(scaling: _Scaling, factor: Decimal) -> Decimal:
    def sharpened(scale: Decimal) -> Decimal:
        tenth = _DIGITS.multiply(Decimal("0.1"), scale)
        return _DIGITS.add(_ONE, _DIGITS.multiply(tenth, _DIGITS.ln(factor)))

    parameters = scaling.parameters
    if parameters.get("attention_factor") is not None:
        return scaling.number("attention_factor")
    if parameters.get("mscale") and parameters.get("mscale_all_dim"):
        own, all_dimensions = scaling.number("mscale"), scaling.number("mscale_all_dim")
        return _DIGITS.divide(sharpened(own), sharpened(all_dimensions))
    return sharpened(_ONE)


def _between(share: Decimal) -> Decimal:
    return min(max(share, Decimal(0)), _ONE)


def _blend(frequency: Decimal, factor: Decimal, kept: Decimal) -> Decimal:
    """Return the frequency by the share `kept`, and the frequency over the factor by the rest."""
    divided = _DIGITS.divide(frequency, factor)
    return _DIGITS.add(
        _DIGITS.multiply(kept, frequency),
        _DIGITS.multiply(_DIGITS.subtract(_ONE, kept), divided),
    )


_KINDS: Mapping[str, tuple[tuple[str, ...], Callable[[_Scaling], Rotation]]] = {
    "default": ((), _default),
    "linear": (("factor",), _linear),
    "dynamic": (("factor",), _dynamic),
    "llama3": (("factor", "low_freq_factor", "high_freq_factor", _CONTEXT), _llama3),
    "yarn": (
        (
            *("factor", "attention_factor", "mscale", "mscale_all_dim", _CONTEXT),
            *("beta_fast", "beta_slow", "truncate"),
        ),
        _yarn,
    ),
}
