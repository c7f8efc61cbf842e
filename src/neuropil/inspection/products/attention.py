"""The stages of an attention: queries, keys and values, scores, weights and mixed values. The fused kernel returns the
mixture alone: scores and weights are computed from the queries and keys that it was given."""

import torch
from jaxtyping import Bool
from torch import Tensor
from torch.nn import functional as F

from neuropil.errors import InputError
from neuropil.inspection.products.captured import CapturedPass, HeadInputs
from neuropil.inspection.products.layers import add_linear
from neuropil.inspection.products.opened import Factor, Index
from neuropil.inspection.products.source import Computed
from neuropil.inspection.products.stages import (
    NamedValues,
    Rule,
    TracedPass,
    Where,
    constant,
    function,
    linear,
    norm_of,
    quotient,
    softmax_of,
    squared_distance,
    sum_of,
)
from neuropil.parts import attention
from neuropil.parts.attention import Additive, Cosine, InnerProduct, ScaledDot, Score, Smoothing, causal_mask
from neuropil.parts.kernels import Gaussian
from neuropil.parts.multi_head import MultiHeadAttention

SHORTEST = 1e-12
"""By which `F.normalize` divides at least."""
MIXED = Computed(attention._fused, "mixed = F.scaled_dot_product_attention(")


def add_multi_head(
    traced: TracedPass,
    name: str,
    module: MultiHeadAttention,
    captured: CapturedPass,
    queries_of: NamedValues,
    keys_of: NamedValues | None = None,
) -> NamedValues:
    """What attention adds to the stream; without `keys_of`, of a sequence to itself."""
    flat = captured.input_of(f"{name}.output")  # query (head width)
    heads, width = module.heads, module.head_width
    if heads:  # all of them may have been removed
        given = captured.heads[name]
        query, key, value = _add_projections(traced, name, module, given, queries_of, keys_of)
        allowed = _allowed(given)
        scores = add_scores(traced, name, module.score, query, key, allowed)
        weights = add_weights(traced, name, scores, allowed)
        seen = flat.unflatten(-1, (heads, width)).movedim(1, 0)
        mixed = add_mixed(traced, name, weights, value, seen if module.head_mask is None else None, allowed)
        if module.head_mask is not None:
            mixed = _add_masked_heads(traced, name, mixed, module.head_mask, seen)
    else:
        mixed = NamedValues(f"{name}.mixed", flat.reshape(0, len(flat), width))
    weight, bias = traced.weights(f"{name}.output")

    def terms(index: Index) -> list[tuple[Factor, ...]]:
        time, unit = index
        side_by_side = [factor for head in range(heads) for factor in mixed.row(head, time)]
        products = list(zip(weight.row(unit), side_by_side, strict=True))
        return products if bias is None else [*products, (bias[unit,],)]

    return traced.add(
        name,
        captured.output_of(f"{name}.output"),
        sum_of(terms),
        Where(Computed(MultiHeadAttention.select, "return self.output(rearrange("), name),
        title="output projection",
        axes="time width",
        equation="y[{0}, {1}] = Σ_h Σ_w W[{1}, h, w] o[h, {0}, w] + b[{1}]",
    )


def _add_projections(
    traced: TracedPass,
    name: str,
    module: MultiHeadAttention,
    given: HeadInputs,
    queries_of: NamedValues,
    keys_of: NamedValues | None,
) -> list[NamedValues]:
    heads, width = module.heads, module.head_width
    itself = keys_of is None
    lines = {
        "query": Computed(MultiHeadAttention.project_queries, "self._part(query, 0, 1)"),
        "key": Computed(MultiHeadAttention.project_keys, "k, v = self._split_heads(self._part(key, 1, 3), 2)"),
    }
    if itself and module.fused:
        lines = dict.fromkeys(lines, Computed(MultiHeadAttention.project, "self.projection(query), 3)"))
    elif not module.fused:
        lines["key"] = Computed(MultiHeadAttention.project_keys, "(self.key(key), self.value(value))")
    sources = {"query": queries_of, "key": queries_of if keys_of is None else keys_of}
    found: list[NamedValues] = []
    for number, part in enumerate(("query", "key", "value")):
        weight, bias = traced.weights(f"{name}.projection" if module.fused else f"{name}.{part}")
        first, letter = number * heads * width if module.fused else 0, part[0]

        def locate(index: Index, first: int = first) -> tuple[Index, int]:
            head, time, unit = index
            return (time,), first + head * width + unit

        source = sources["query" if part == "query" else "key"]
        shift = "" if bias is None else f" + b^{letter.upper()}[{{0}}, {{2}}]"
        found.append(
            traced.add(
                f"{name}.{part}",
                getattr(given, part)[0],
                linear(source, weight, bias, locate),
                Where(lines["query" if part == "query" else "key"], name),
                title={"query": "queries", "key": "keys", "value": "values"}[part],
                axes="head time width",
                equation=f"{letter}[{{0}}, {{1}}, {{2}}] = Σ_j W^{letter.upper()}[{{0}}, {{2}}, j] x[{{1}}, j]{shift}",
            )
        )
    return found


def _allowed(given: HeadInputs) -> Bool[Tensor, "head query key"] | None:
    """Which keys each query may see; nothing, where all of them."""
    _, heads, queries, _ = given.query.shape
    keys = given.key.shape[2]
    mask = causal_mask(queries, keys, given.query.device) if given.causal else None
    if given.mask is not None:
        seen = given.mask.expand(1, heads, queries, keys)[0]
        mask = seen if mask is None else seen & mask
    return None if mask is None else mask.expand(heads, queries, keys)


def _add_masked_heads(
    traced: TracedPass, name: str, mixed: NamedValues, head_mask: Tensor, values: Tensor
) -> NamedValues:
    shares = head_mask.tolist()
    return traced.add(
        f"{name}.masked",
        values,
        sum_of(lambda index: [(mixed[index], constant(shares[index[0]], "head mask", index[:1]))]),
        Where(Computed(MultiHeadAttention.select, "mixed = mixed * self.head_mask"), name),
        title="mixed values of the heads that are not masked",
        axes="head time width",
        equation="o'[{0}, {1}, {2}] = m[{0}] o[{0}, {1}, {2}]",
    )


# --- one soft select, of heads or without them ------------------------------------------------------------------------


def add_weights(traced: TracedPass, name: str, scores: NamedValues, allowed: Tensor | None) -> NamedValues:
    """Softmax over the keys that a query may see."""
    empty = torch.isinf(scores.values).all(-1, keepdim=True)
    values = scores.values.masked_fill(empty, 0).softmax(-1).masked_fill(empty, 0)

    def seen(index: Index) -> list[Factor]:
        own = index[-1]
        row = scores.row(*index[:-1])
        return row if allowed is None else [each for each in row if allowed[each.index] or each.index[-1] == own]

    at, others = _equation_indices(scores, "{k}"), _equation_indices(scores, "j")
    return traced.add(
        f"{name}.weights",
        values,
        softmax_of(scores, seen),
        Where(Computed(Score.soften, "return scores.softmax(-1)"), name),
        title="attention weights",
        axes=_pair_axes(scores),
        equation=f"a[{at}] = exp(e[{at}]) / Σ_j exp(e[{others}])",
    )


def add_mixed(
    traced: TracedPass,
    name: str,
    weights: NamedValues,
    value: NamedValues,
    values: Tensor | None,
    allowed: Tensor | None,
) -> NamedValues:
    """o = Σ_j a_j v_j, over the keys that may be seen."""

    def terms(index: Index) -> list[tuple[Factor, ...]]:
        *head, query, unit = index
        row = weights.row(*head, query)
        kept = row if allowed is None else [each for each in row if allowed[each.index]]
        return [(each, value[(*head, each.index[-1], unit)]) for each in kept]

    h = "{0}, " if value.values.ndim == 3 else ""
    i, j = (f"{{{axis + bool(h)}}}" for axis in range(2))
    return traced.add(
        f"{name}.mixed",
        weights.values @ value.values if values is None else values,
        sum_of(terms),
        Where(MIXED, name),
        title="mixed values",
        axes=" ".join(traced.stages[value.name].axes),
        equation=f"o[{h}{i}, {j}] = Σ_j a[{h}{i}, j] v[{h}j, {j}]",
    )


def add_scores(
    traced: TracedPass, name: str, score: Score, query: NamedValues, key: NamedValues, allowed: Tensor | None
) -> NamedValues:
    """Minus infinity where a query may not look."""
    values = score(query.values, key.values)
    if allowed is not None:
        values = values.masked_fill(~allowed, -torch.inf)
    rule, computed, equation = _score_rule(traced, name, score, query, key)
    pairs = NamedValues(name, values)
    return traced.add(
        f"{name}.scores",
        values,
        rule,
        Where(computed, name),
        title="scores",
        axes=_pair_axes(pairs),
        equation=f"e[{_equation_indices(pairs, '{k}')}] = {equation}",
    )


def _score_rule(
    traced: TracedPass, name: str, score: Score, query: NamedValues, key: NamedValues
) -> tuple[Rule, Computed, str]:
    def rows(index: Index) -> tuple[list[Factor], list[Factor]]:
        *head, i, j = index
        return query.row(*head, i), key.row(*head, j)

    line, h = (
        Computed(InnerProduct.__call__, "return scale * query @ key.mT"),
        "{0}, " if query.values.ndim == 3 else "",
    )
    q, k = (f"[{h}{{{axis + bool(h)}}}, w]" for axis in range(2))
    if isinstance(score, Smoothing) and isinstance(score.kernel, Gaussian):
        scale = constant(-0.5 / float(score.kernel.length) ** 2, "−1 / 2ℓ²")
        rule = squared_distance(lambda index: rows(index)[0], lambda index: rows(index)[1], scale)
        line = Computed(Gaussian.of_distance, "return -0.5 * (distance / self.length).square()")
        return rule, line, f"−1/2ℓ² Σ_w (q{q} − k{k})²"
    if isinstance(score, Additive):
        return _additive_rule(traced, name, score, query, key)
    if isinstance(score, Cosine):
        query, key = _add_unit_length(traced, query), _add_unit_length(traced, key)
    elif not isinstance(score, ScaledDot):
        got = type(score).__name__
        raise InputError("the scores that can be opened are scaled dot, cosine, Gaussian and additive", got=got)
    factors, sign = score.factors(query.values, key.values), "β" if isinstance(score, Cosine) else "1/√d"
    scale = constant(factors.scale, sign)
    return (
        sum_of(lambda index: [(scale, *pair) for pair in zip(*rows(index), strict=True)]),
        line,
        f"{sign} Σ_w q{q} k{k}",
    )


def _add_unit_length(traced: TracedPass, x: NamedValues) -> NamedValues:
    """x / ‖x‖"""
    title, part = traced.stages[x.name].title, traced.stages[x.name].path[-1]
    where = Where(Computed(Cosine.factors, "F.normalize(query, dim=-1)"), part)
    length = traced.add(
        f"{x.name}.length",
        x.values.norm(dim=-1),
        norm_of(lambda index: x.row(*index)),
        where,
        title=f"lengths of the {title}",
        axes="time",
        equation="‖x[{0}]‖ = √Σ_w x[{0}, w]²",
    )

    def below(index: Index) -> Factor:
        found = length[index[:-1]]
        return found if found.value > SHORTEST else constant(SHORTEST, "shortest length")

    return traced.add(
        f"{x.name}.unit",
        F.normalize(x.values, dim=-1),
        quotient(lambda index: x[index], below),
        where,
        title=f"{title} of unit length",
        axes="time width",
        equation="u[{0}, {1}] = x[{0}, {1}] / ‖x[{0}]‖",
    )


def _additive_rule(
    traced: TracedPass, name: str, score: Additive, query: NamedValues, key: NamedValues
) -> tuple[Rule, Computed, str]:
    """vᵀ tanh(W q + U k)"""
    line = Computed(Additive.forward, "return torch.tanh(self.query(query)")
    where, weight = Where(line, name), traced.parameter(f"{name}.score.weight")
    projected = {"query": score.query(query.values), "key": score.key(key.values)}
    of_query, of_key = (
        add_linear(
            traced, f"{name}.score.{part}", x, projected[part], where, axes="time hidden", title=f"projected {many}"
        )
        for part, many, x in (("query", "queries", query), ("key", "keys", key))
    )
    sums = traced.add(
        f"{name}.score.sum",
        of_query.values.unsqueeze(-2) + of_key.values.unsqueeze(-3),
        sum_of(lambda index: [(of_query[index[0], index[2]],), (of_key[index[1], index[2]],)], "sum"),
        where,
        title="sums of each pair",
        axes="query key hidden",
        equation="s[{0}, {1}, {2}] = Wq[{0}, {2}] + Uk[{1}, {2}]",
    )
    hidden = traced.add(
        f"{name}.score.tanh",
        sums.values.tanh(),
        function("tanh", sums),
        where,
        title="tanh of each pair",
        axes="query key hidden",
        equation="t[{0}, {1}, {2}] = tanh(s[{0}, {1}, {2}])",
    )
    rule = sum_of(lambda index: list(zip(weight.row(), hidden.row(*index), strict=True)))
    return rule, line, "Σ_h v[h] t[{0}, {1}, h]"


def _pair_axes(scores: NamedValues) -> str:
    return "head query key" if scores.values.ndim == 3 else "query key"


def _equation_indices(scores: NamedValues, last: str) -> str:
    first = ["{0}", "{1}"] if scores.values.ndim == 3 else ["{0}"]
    return ", ".join([*first, f"{{{len(first)}}}" if last == "{k}" else last])
