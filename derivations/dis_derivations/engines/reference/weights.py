"""The weights of a model in the form that the engine computes with."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dis_derivations.engines.reference.checkpoint import Checkpoint, StoredTensor
from dis_derivations.engines.reference.configuration import ModelConfiguration
from dis_derivations.engines.reference.exact_matmul import ExactWeights
from dis_derivations.engines.reference.fixed_point import Floats
from dis_derivations.engines.reference.normalization import RootMeanSquare


@dataclass(frozen=True)
class Linear:
    """An exact product, then a bias where the model has one."""

    weights: ExactWeights
    bias: Floats | None

    def apply(self, x: Floats) -> Floats:
        """Return the projection of each row of x."""
        result = self.weights.multiply(x)
        if self.bias is not None:
            result += self.bias
        return result


@dataclass(frozen=True)
class LayerWeights:
    """One layer. Projections of the same input are one matrix.

    Attributes:
        head_norms: Of the query heads and of the key heads, where the model has them.
    """

    attention_norm: RootMeanSquare
    query_key_value: Linear
    head_norms: tuple[RootMeanSquare, RootMeanSquare] | None
    attention_output: Linear
    mlp_norm: RootMeanSquare
    gate_up: Linear
    down: Linear


@dataclass(frozen=True)
class ModelWeights:
    """A whole model. The embedding stays in its file, in its own dtype; rows are read on demand."""

    configuration: ModelConfiguration
    embedding: StoredTensor
    layers: tuple[LayerWeights, ...]
    final_norm: RootMeanSquare
    head: Linear

    def embed(self, tokens: NDArray[np.intp]) -> Floats:
        """Return the embeddings of tokens: [rows, hidden size].

        Raises:
            IntegrityError: One cannot be read.
        """
        return self.embedding.rows(tokens)


@dataclass(frozen=True)
class _LinearPlan:
    """Tensors that become one matrix, stacked in order, and their biases."""

    parts: tuple[StoredTensor, ...]
    biases: tuple[StoredTensor, ...]

    def load(self) -> Linear:
        outputs = sum(part.shape[0] for part in self.parts)
        values = np.empty((outputs, self.parts[0].shape[1]))
        start = 0
        for part in self.parts:
            end = start + part.shape[0]
            part.read(values[start:end])
            start = end
        bias = np.concatenate([_vector(part) for part in self.biases]) if self.biases else None
        return Linear(ExactWeights(values), bias)


@dataclass(frozen=True)
class _LayerPlan:
    attention_norm: StoredTensor
    query_key_value: _LinearPlan
    head_norms: tuple[StoredTensor, StoredTensor] | None
    attention_output: _LinearPlan
    mlp_norm: StoredTensor
    gate_up: _LinearPlan
    down: _LinearPlan

    def load(self, epsilon: float) -> LayerWeights:
        head_norms = None
        if self.head_norms is not None:
            queries, keys = (RootMeanSquare(_vector(norm), epsilon) for norm in self.head_norms)
            head_norms = queries, keys
        return LayerWeights(
            attention_norm=RootMeanSquare(_vector(self.attention_norm), epsilon),
            query_key_value=self.query_key_value.load(),
            head_norms=head_norms,
            attention_output=self.attention_output.load(),
            mlp_norm=RootMeanSquare(_vector(self.mlp_norm), epsilon),
            gate_up=self.gate_up.load(),
            down=self.down.load(),
        )


class WeightPlan:
    """Which tensors of a checkpoint become which weights, checked against the configuration."""

    def __init__(self, checkpoint: Checkpoint, configuration: ModelConfiguration) -> None:
        """Find every tensor; read none.

        Raises:
            InvalidInputError: A tensor is missing or does not fit.
            UnfitEnvironmentError: A tensor is left over or has a dtype that is not supported.
        """
        self._checkpoint = checkpoint
        self.configuration = configuration
        hidden, vocabulary = configuration.hidden_size, configuration.vocabulary
        self._embedding = checkpoint.take("model.embed_tokens.weight", (vocabulary, hidden))
        self._layers = [self._layer(number) for number in range(len(configuration.layers))]
        self._final_norm = checkpoint.take("model.norm.weight", (hidden,))
        if configuration.tied_head:
            self._head = _LinearPlan((self._embedding,), ())
            checkpoint.leave_out("lm_head.weight")
        else:
            self._head = _LinearPlan((checkpoint.take("lm_head.weight", (vocabulary, hidden)),), ())
        checkpoint.leave_out(".rotary_emb.inv_freq")
        checkpoint.require_all_taken()

    def load(self) -> ModelWeights:
        """Read, check, round all weights.

        Raises:
            IntegrityError: A weight is not finite, or cannot be read.
        """
        epsilon = self.configuration.norm_epsilon
        return ModelWeights(
            configuration=self.configuration,
            embedding=_checked(self._embedding),
            layers=tuple(layer.load(epsilon) for layer in self._layers),
            final_norm=RootMeanSquare(_vector(self._final_norm), epsilon),
            head=self._head.load(),
        )

    def _layer(self, number: int) -> _LayerPlan:
        configuration, heads = self.configuration, self.configuration.heads
        hidden, inner = configuration.hidden_size, configuration.intermediate_size
        prefix = f"model.layers.{number}."
        queries, keys = heads.queries * heads.size, heads.keys * heads.size
        take = self._checkpoint.take
        head_norms = None
        if configuration.head_norms:
            head_norms = (
                take(f"{prefix}self_attn.q_norm.weight", (heads.size,)),
                take(f"{prefix}self_attn.k_norm.weight", (heads.size,)),
            )
        return _LayerPlan(
            attention_norm=take(f"{prefix}input_layernorm.weight", (hidden,)),
            query_key_value=self._linear(
                f"{prefix}self_attn.",
                {"q_proj": queries, "k_proj": keys, "v_proj": keys},
                hidden,
                bias=configuration.projection_bias,
            ),
            head_norms=head_norms,
            attention_output=self._linear(
                f"{prefix}self_attn.", {"o_proj": hidden}, queries, bias=configuration.output_bias
            ),
            mlp_norm=take(f"{prefix}post_attention_layernorm.weight", (hidden,)),
            gate_up=self._linear(
                f"{prefix}mlp.",
                {"gate_proj": inner, "up_proj": inner},
                hidden,
                bias=configuration.mlp_bias,
            ),
            down=self._linear(
                f"{prefix}mlp.", {"down_proj": hidden}, inner, bias=configuration.mlp_bias
            ),
        )

    def _linear(
        self, prefix: str, outputs: dict[str, int], inputs: int, *, bias: bool
    ) -> _LinearPlan:
        take = self._checkpoint.take
        return _LinearPlan(
            parts=tuple(
                take(f"{prefix}{name}.weight", (count, inputs)) for name, count in outputs.items()
            ),
            biases=tuple(take(f"{prefix}{name}.bias", (count,)) for name, count in outputs.items())
            if bias
            else (),
        )


def _vector(tensor: StoredTensor) -> Floats:
    values = np.empty(tensor.shape)
    tensor.read(values)
    return values


def _checked(tensor: StoredTensor) -> StoredTensor:
    """Return a tensor that stays in its file, after looking at all of it once."""
    tensor.require_finite()
    return tensor
