"""The operations of the expression graph: each a few lines, its value and how a gradient flows back through it.

Before the slash stand the arguments that are differentiated. After the value, each rule returns one pullback for each
of them: s is the gradient of the output, and `s · ∂output/∂argument` the gradient of the argument. Arguments broadcast
as in NumPy; the engine undoes it.
"""

from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Float, Integer
from numpy.lib.stride_tricks import sliding_window_view

from neuropil.autodiff.engine import Array, Pullback, op
from neuropil.errors import InputError

Value: TypeAlias = Array | np.floating  # what NumPy makes of 0-d arrays
Unary: TypeAlias = tuple[Value, Pullback]
Binary: TypeAlias = tuple[Value, Pullback, Pullback]
Axis: TypeAlias = int | tuple[int, ...] | None


# Arithmetic


@op
def add(a: Array, b: Array, /) -> Binary:
    """∂(a + b)/∂a = 1,  ∂(a + b)/∂b = 1."""
    return a + b, lambda s: s, lambda s: s


@op
def sub(a: Array, b: Array, /) -> Binary:
    """∂(a - b)/∂a = 1,  ∂(a - b)/∂b = -1."""
    return a - b, lambda s: s, lambda s: -s


@op
def neg(x: Array, /) -> Unary:
    """∂(-x)/∂x = -1."""
    return -x, lambda s: -s


@op
def mul(a: Array, b: Array, /) -> Binary:
    """∂(a b)/∂a = b,  ∂(a b)/∂b = a."""
    return a * b, lambda s: s * b, lambda s: s * a


@op
def div(a: Array, b: Array, /) -> Binary:
    """∂(a / b)/∂a = 1 / b,  ∂(a / b)/∂b = -a / b²."""
    return a / b, lambda s: s / b, lambda s: -s * a / b**2


@op
def power(x: Array, p: Array, /) -> Binary:
    """∂xᵖ/∂x = p xᵖ⁻¹,  ∂xᵖ/∂p = xᵖ ln x  (0 where x is 0)."""
    y = x**p
    return y, lambda s: s * p * x ** np.where(p == 0, 1, p - 1), lambda s: s * y * np.log(np.where(x == 0, 1, x))


@op
def matmul(a: Array, b: Array, /) -> Binary:
    """∂(A B)/∂A: s Bᵀ,  ∂(A B)/∂B: Aᵀ s, over the last two axes; a vector is a row on the left, else a column."""
    A = a[None, :] if a.ndim == 1 else a
    B = b[:, None] if b.ndim == 1 else b
    y = A @ B
    added = tuple(axis for axis, operand in ((-2, a), (-1, b)) if operand.ndim == 1)
    kept = (..., 0) if b.ndim == 1 else ...
    return (
        y.squeeze(added),
        lambda s: s.reshape(y.shape) @ B.swapaxes(-1, -2),
        lambda s: (A.swapaxes(-1, -2) @ s.reshape(y.shape))[kept],
    )


# Functions of each element


@op
def exp(x: Array, /) -> Unary:
    """∂eˣ/∂x = eˣ."""
    y = np.exp(x)
    return y, lambda s: s * y


@op
def log(x: Array, /) -> Unary:
    """∂ln x/∂x = 1 / x."""
    return np.log(x), lambda s: s / x


@op
def sin(x: Array, /) -> Unary:
    """∂sin x/∂x = cos x."""
    return np.sin(x), lambda s: s * np.cos(x)


@op
def cos(x: Array, /) -> Unary:
    """∂cos x/∂x = -sin x."""
    return np.cos(x), lambda s: -s * np.sin(x)


@op
def tanh(x: Array, /) -> Unary:
    """∂tanh x/∂x = 1 - tanh² x."""
    y = np.tanh(x)
    return y, lambda s: s * (1 - y**2)


@op
def sigmoid(x: Array, /) -> Unary:
    """The logistic function σ(x) = 1 / (1 + e⁻ˣ);  ∂σ/∂x = σ (1 - σ)."""
    y = _sigmoid(x)
    return y, lambda s: s * y * (1 - y)


@op
def relu(x: Array, /) -> Unary:
    """∂max(x, 0)/∂x = 1 where x > 0, else 0."""
    return np.maximum(x, 0), lambda s: s * (x > 0)


@op
def softplus(x: Array, /) -> Unary:
    """∂ln(1 + eˣ)/∂x = σ(x)."""
    return np.logaddexp(x, 0), lambda s: s * _sigmoid(x)


def _sigmoid(x: Array) -> Value:
    return np.exp(-np.logaddexp(0, -x))  # neither overflows nor rounds to 0 far from the origin


@op
def abs(x: Array, /) -> Unary:
    """∂|x|/∂x = sign x."""
    return np.abs(x), lambda s: s * np.sign(x)


@op
def where(condition: Array, a: Array, b: Array, /) -> tuple[Value, Pullback, Pullback, Pullback]:
    """a where the condition holds, else b. The gradient goes to whichever was taken; the condition has none."""
    taken = condition != 0
    return np.where(taken, a, b), lambda s: np.zeros_like(s), lambda s: s * taken, lambda s: s * ~taken


# Reductions: the value keeps the reduced axes at length 1, which is also how its gradient broadcasts back.


@op
def sum(x: Array, /, axis: Axis = None, keepdims: bool = False) -> Unary:
    """∂(Σ x)/∂xᵢ = 1."""
    y = x.sum(axis, keepdims=True)
    return _dropped(y, axis, keepdims), lambda s: np.broadcast_to(s.reshape(y.shape), x.shape)


@op
def mean(x: Array, /, axis: Axis = None, keepdims: bool = False) -> Unary:
    """∂(Σ x / n)/∂xᵢ = 1 / n."""
    y = x.mean(axis, keepdims=True)
    return _dropped(y, axis, keepdims), lambda s: np.broadcast_to(s.reshape(y.shape) * (y.size / x.size), x.shape)


@op
def max(x: Array, /, axis: Axis = None, keepdims: bool = False) -> Unary:
    """∂max(x)/∂xᵢ = 1 for the largest, 0 for others; equals share it."""
    y = x.max(axis, keepdims=True)
    return _dropped(y, axis, keepdims), lambda s: s.reshape(y.shape) * _shares(x == y, axis, x.dtype)


@op
def min(x: Array, /, axis: Axis = None, keepdims: bool = False) -> Unary:
    """∂min(x)/∂xᵢ = 1 for the smallest, 0 for others; equals share it."""
    y = x.min(axis, keepdims=True)
    return _dropped(y, axis, keepdims), lambda s: s.reshape(y.shape) * _shares(x == y, axis, x.dtype)


@op
def logsumexp(x: Array, /, axis: Axis = -1, keepdims: bool = False) -> Unary:
    """∂ln(Σ eˣ)/∂xᵢ = eˣⁱ / Σ eˣ; the largest x is taken out first, so that nothing overflows."""
    y = _logsumexp(x, axis)
    return _dropped(y, axis, keepdims), lambda s: s.reshape(y.shape) * np.exp(x - y)


def _dropped(y: Value, axis: Axis, keepdims: bool) -> Value:
    return y if keepdims else np.squeeze(y, axis)


def _shares(chosen: np.ndarray, axis: Axis, dtype: np.dtype) -> Array:
    return chosen / chosen.sum(axis, dtype=dtype, keepdims=True)


def _logsumexp(x: Array, axis: Axis) -> Value:
    largest = x.max(axis, keepdims=True)
    return largest + np.log(np.exp(x - largest).sum(axis, keepdims=True))


# Moving elements


@op
def reshape(x: Array, /, shape: int | tuple[int, ...]) -> Unary:
    """The same numbers in another shape: the gradient takes the old shape again."""
    return x.reshape(shape), lambda s: s.reshape(x.shape)


@op
def transpose(x: Array, /, axes: tuple[int, ...] | None = None) -> Unary:
    """Axis i of the output is axis axes[i] of x, by default in reverse order: the gradient's axes go back."""
    return x.transpose(axes), lambda s: s.transpose(None if axes is None else np.argsort(np.asarray(axes) % x.ndim))


@op
def index(x: Array, /, at: Any) -> Unary:
    """x[at] for whatever NumPy takes: slices, masks, arrays of integers. An element taken twice gets both gradients."""
    return x[at], lambda s: _added_at(np.zeros_like(x), at, s)


def _added_at(total: Array, at: Any, s: Array) -> Array:
    np.add.at(total, at, s)
    return total


@op
def concatenate(*parts: Array, axis: int = 0) -> tuple[Any, ...]:
    """Each part gets its own stretch of the gradient."""
    ends = np.cumsum([part.shape[axis] for part in parts])[:-1]
    return np.concatenate(parts, axis), *(lambda s, i=i: np.split(s, ends, axis)[i] for i in range(len(parts)))


@op
def stack(*parts: Array, axis: int = 0) -> tuple[Any, ...]:
    """The parts side by side along a new axis; each gets its own slice of the gradient."""
    return np.stack(parts, axis), *(lambda s, i=i: s.take(i, axis) for i in range(len(parts)))


# Distributions and losses


@op
def softmax(x: Array, /, axis: int = -1) -> Unary:
    """yᵢ = eˣⁱ / Σ eˣ,  ∂yᵢ/∂xⱼ = yᵢ (δᵢⱼ - yⱼ)."""
    y = np.exp(x - _logsumexp(x, axis))
    return y, lambda s: y * (s - (s * y).sum(axis, keepdims=True))


@op
def log_softmax(x: Array, /, axis: int = -1) -> Unary:
    """yᵢ = xᵢ - ln Σ eˣ,  ∂yᵢ/∂xⱼ = δᵢⱼ - softmax(x)ⱼ."""
    y = x - _logsumexp(x, axis)
    return y, lambda s: s - np.exp(y) * s.sum(axis, keepdims=True)


@op
def cross_entropy(logits: Array, /, labels: Integer[np.ndarray, "..."]) -> Unary:
    """Mean of -ln softmax(logits)[label] over all labels;  ∂/∂logits = (softmax(logits) - onehot(label)) / n."""
    _require_labels(labels, logits.shape)
    log_probability = logits - _logsumexp(logits, -1)
    onehot = labels[..., None] == np.arange(logits.shape[-1])
    return -log_probability[onehot].mean(), lambda s: (np.exp(log_probability) - onehot) * (s / labels.size)


def _require_labels(labels: Integer[np.ndarray, "..."], shape: tuple[int, ...]) -> None:
    if labels.shape != shape[:-1]:
        rule = f"cross_entropy needs one label for each row of logits, shape {shape[:-1]}"
        raise InputError(rule, got=f"labels of shape {labels.shape}")
    if labels.size and not 0 <= labels.min() <= labels.max() < shape[-1]:
        raise InputError(f"labels must lie in 0 … {shape[-1] - 1}", got=f"labels from {labels.min()} to {labels.max()}")


@op
def squared_error(y: Array, t: Array, /) -> Binary:
    """Mean of (y - t)²;  ∂/∂y = 2 (y - t) / n,  ∂/∂t = -∂/∂y."""
    d = y - t
    return (d * d).mean(), lambda s: s * 2 * d / d.size, lambda s: s * -2 * d / d.size


# Images: the axes are batch, channel, height, width


@op
def conv2d(x: Array, kernel: Array, /, stride: int = 1, padding: int = 0) -> Binary:
    """y[b, o, i, j] = Σ over c, u, v of x[b, c, stride i + u, stride j + v] kernel[o, c, u, v], x padded with zeros.

    Every window of x times the kernel is one matrix product. ∂/∂kernel multiplies the gradient with the same windows;
    ∂/∂x multiplies it with the kernel and adds each product back where its window was.
    """
    _require_images(x, kernel, padding)
    padded = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    inside = (..., slice(padding, padding + x.shape[2]), slice(padding, padding + x.shape[3]))
    every = sliding_window_view(padded, kernel.shape[2:], (2, 3))
    windows = every[:, :, ::stride, ::stride]  # batch channel row column u v
    y = np.tensordot(windows, kernel, ((1, 4, 5), (1, 2, 3)))  # batch row column out

    return (
        np.moveaxis(y, 3, 1),
        lambda s: _added_to_windows(np.zeros_like(padded), np.tensordot(kernel, s, (0, 1)), stride)[inside],
        lambda s: np.tensordot(s, windows, ((0, 2, 3), (0, 2, 3))),  # out channel u v
    )


def _added_to_windows(total: Array, products: Float[np.ndarray, "channel u v batch row column"], stride: int) -> Array:
    rows, columns = (stride * length for length in products.shape[4:])
    for u, v in np.ndindex(products.shape[1:3]):
        total[:, :, u : u + rows : stride, v : v + columns : stride] += products[:, u, v].swapaxes(0, 1)
    return total


def _require_images(x: Array, kernel: Array, padding: int) -> None:
    if x.ndim != 4 or kernel.ndim != 4 or x.shape[1] != kernel.shape[1]:
        rule = "conv2d needs x of (batch, channel, height, width) and a kernel of (out, channel, height, width)"
        raise InputError(rule, got=f"{x.shape} and {kernel.shape}")
    if any(length + 2 * padding < size for length, size in zip(x.shape[2:], kernel.shape[2:], strict=True)):
        raise InputError("conv2d needs images as large as its kernel", got=f"{x.shape[2:]} and {kernel.shape[2:]}")


@op
def max_pool(x: Array, /, size: int = 2) -> Unary:
    """The largest of each size × size tile, ∂/∂x = 1 there; equals share it. Incomplete tiles are left out."""
    tiles = _tiles(x, size)
    y = tiles.max((3, 5), keepdims=True)
    return y.squeeze((3, 5)), lambda s: _untile(s.reshape(y.shape) * _shares(tiles == y, (3, 5), x.dtype), x.shape)


@op
def mean_pool(x: Array, /, size: int = 2) -> Unary:
    """The mean of each size × size tile, ∂/∂x = 1 / size². Rows and columns that fill no tile are left out."""
    tiles = _tiles(x, size)
    y = tiles.mean((3, 5), keepdims=True)
    return y.squeeze((3, 5)), lambda s: _untile(np.broadcast_to(s.reshape(y.shape) / size**2, tiles.shape), x.shape)


def _tiles(x: Array, size: int) -> Array:
    """batch channel row u column v, with u and v inside a tile."""
    batch, channels, height, width = x.shape
    rows, columns = height // size, width // size
    return x[:, :, : rows * size, : columns * size].reshape(batch, channels, rows, size, columns, size)


def _untile(tiles: Array, shape: tuple[int, ...]) -> Array:
    batch, channels, rows, size, columns, _ = tiles.shape
    x = np.zeros(shape, tiles.dtype)
    x[:, :, : rows * size, : columns * size] = tiles.reshape(batch, channels, rows * size, columns * size)
    return x
