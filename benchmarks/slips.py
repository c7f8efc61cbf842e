"""What lecture notes on neural networks print wrongly, and the right numbers, each computed here: the table of
docs/notes-slips.md. A number is computed in both ways, as printed and as it should be.

python -m benchmarks.slips
"""

import math
import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from neuropil.autodiff.engine import Var
from neuropil.models.hodgkin_huxley.neuron import HodgkinHuxley, HodgkinHuxleyConfig, steady_state
from neuropil.models.hodgkin_huxley.pump import PumpConfig, PumpedAxon
from neuropil.models.lif import LIFConfig, rate
from neuropil.models.predictive_coding.network import PredictiveCoding, PredictiveCodingConfig
from neuropil.randomness import initialised

HEADER = ("subject", "in the notes", "right", "why")
DIAMONDS = 16


class Slip(NamedTuple):
    """`printed` and `right` are numbers, or empty where what is printed has none; `says` and `computed` are words with
    them."""

    subject: str
    says: str
    computed: str
    why: str
    printed: tuple[float, ...] = ()
    right: tuple[float, ...] = ()


def main(words: Sequence[str] = ()) -> None:
    for row in rows():
        print("\n".join(f"{name}: {cell}" for name, cell in zip(HEADER, row, strict=True)), end="\n\n")


def rows() -> list[list[str]]:
    return [[slip.subject, slip.says, slip.computed, slip.why] for slip in (find() for find in SLIPS)]


def numbers(values: Sequence[float], digits: int = 3) -> str:
    return ", ".join(f"{value:.{digits}f}".replace("-", "−") for value in values)


# --- attention --------------------------------------------------------------------------------------------------------


def softmax_of_scores() -> Slip:
    right = tuple(torch.tensor([1.0, 1, 1, 5], dtype=torch.double).softmax(0).tolist())
    printed = (0.05, 0.05, 0.05, 0.85)
    return Slip(
        "Attention: softmax of the scores (1, 1, 1, 5)",
        numbers(printed, 2),
        numbers(right),
        "e⁵ is e⁴ = 54.6 times e¹, and the weights keep that ratio",
        printed,
        right,
    )


def row_of_weights() -> Slip:
    row = (0.5, 0.45, 0.5)
    return Slip(
        "Self-attention: third row of the example of similarities",
        f"({', '.join(f'{weight:g}' for weight in row)}), whose sum is {sum(row):g}",
        f"a sum of 1, for instance ({row[0]:g}, {row[1]:g}, {1 - row[0] - row[1]:g})",
        "every row of weights is a probability distribution",
        (sum(row),),
        (1.0,),
    )


def shapes_of_attention() -> Slip:
    tokens, width = 3, 4
    x = torch.arange(float(tokens * width)).reshape(width, tokens)  # tokens in columns, for W X
    printed = tuple((x @ x.T).shape)
    right = tuple((x.T @ x).shape)
    return Slip(
        "Attention in matrix form: σ(W^Q X (W^K X)ᵀ / √d) W^V X",
        f"for {tokens} tokens of width {width} the weights are {printed[0]} × {printed[1]}",
        f"σ(X W^Q (X W^K)ᵀ / √d) X W^V, whose weights are {right[0]} × {right[1]}",
        "weights go from token to token; with weight matrices on the left, tokens are columns, and Q Kᵀ is of features",
        tuple(map(float, printed)),
        tuple(map(float, right)),
    )


def width_of_positions() -> Slip:
    d, d_k, j = 512, 64, 128
    wavelengths = tuple(2 * math.pi * 10000 ** (2 * j / width) for width in (d_k, d))
    return Slip(
        "Sinusoidal positions: 10000^(2j/d_k)",
        f"for d = {d} and 8 heads (d_k = {d_k}), column {2 * j} has a wavelength of {wavelengths[0]:.1e} positions",
        f"10000^(2j/d), with a wavelength of {wavelengths[1]:.0f}",
        "the encoding is added to x, of width d, before there are heads",
        wavelengths[:1],
        wavelengths[1:],
    )


def kernel_weights() -> Slip:
    y = np.ones(3)
    kernel = np.exp(-0.5 * np.square(np.zeros(3) - np.array([0.0, 0.1, -0.1])))
    return Slip(
        "Kernel methods beside attention: ŷ = Σ α_i y_i with α_i = K(x, x_i)",
        f"three targets of 1 around x give ŷ = {kernel @ y:.2f}",
        f"α_i = K(x, x_i) / Σ_j K(x, x_j), which gives {kernel @ y / kernel.sum():.2f}",
        "similarities are no weights until they are normalised, or multiplied by (K + σ²I)⁻¹ as in a Gaussian process",
        (float(kernel @ y),),
        (float(kernel @ y / kernel.sum()),),
    )


# --- learning ---------------------------------------------------------------------------------------------------------


def diamonds(count: int) -> Var:
    """x, then x + x, and so on: every sum has two paths to what it is made of."""
    x = Var(1.0)
    for _ in range(count):
        x = x + x
    return x


def calls_of_recursion(var: Var) -> int:
    """How often `backward` of a Var is called by the recursion that passes on every gradient as it comes."""
    if var.creator is None:
        return 1
    return 1 + sum(calls_of_recursion(arg) for arg in var.creator.args)


def backward_calls() -> Slip:
    printed = float(calls_of_recursion(diamonds(DIAMONDS)))
    right = float(sum(1 for _ in diamonds(DIAMONDS).backward(steps=True)))
    return Slip(
        "Automatic differentiation: backward as a recursion over arguments",
        f"{printed:,.0f} calls for a chain of {DIAMONDS} sums y = x + x",
        f"{right:,.0f} steps in topological order",
        "the recursion goes along every path, of which there are 2ⁿ; each op needs to be visited once",
        (printed,),
        (right,),
    )


def sign_of_descent() -> Slip:
    theta = torch.tensor(1.0, dtype=torch.double, requires_grad=True)
    (theta**2 / 2).backward()
    gradient = torch.as_tensor(theta.grad).item()
    printed, right = (theta.item() + sign * 0.1 * gradient for sign in (1, -1))
    return Slip(
        "Gradient descent: the Euler step θ + κ ∇E(θ)",
        f"for E = ½θ² and κ = 0.1 it goes from 1 to {printed:g}",
        f"θ − κ ∇E(θ), to {right:g}",
        "the flow is dθ/dt = −∇E; the other sign climbs",
        (printed,),
        (right,),
    )


def bernoulli_likelihood() -> Slip:
    y, t = 0.8, 1.0
    printed = -math.log(t**y * (1 - y) ** (1 - y))
    right = F.binary_cross_entropy(torch.tensor(y).double(), torch.tensor(t).double()).item()
    return Slip(
        "Bernoulli cross-entropy: −log(t^y (1 − y)^(1−y))",
        f"{printed:.3f} for y = {y:g} and t = {t:g}",
        f"−log(y^t (1 − y)^(1−t)) = {right:.3f}",
        "base and exponent are swapped in the first factor; the sum printed after it is right",
        (printed,),
        (right,),
    )


def shrinking() -> Slip:
    w = 8.0
    z = torch.zeros((), dtype=torch.double, requires_grad=True)
    torch.sigmoid(w * z).backward()
    right = torch.as_tensor(z.grad).item()
    return Slip(
        "Vanishing gradients: logistic units shrink them by at least a factor of 4 in each layer",
        "a factor of at most 0.25",
        f"a factor of σ'(z) w: {right:g} for a weight of {w:g} at z = 0",
        "σ' ≤ 0.25, but the weight multiplies it; so gradients can explode too, as the notes say next",
        (0.25,),
        (right,),
    )


def correlation() -> Slip:
    f, g = torch.tensor([1.0, 2, 3]), torch.tensor([0.0, 1, 0.5])
    right = F.conv1d(g[None, None], f[None, None], padding=1)[0, 0]  # PyTorch's is a correlation
    printed = torch.from_numpy(np.convolve(f.numpy(), g.numpy(), "same"))
    return Slip(
        "Convolution and correlation: the same formula for both, Σ f_ij g_(m−i, n−j)",
        f"(1, 2, 3) over (0, 1, ½): {numbers(printed.tolist(), 1)} for both",
        f"Σ f_ij g_(m+i, n+j) for the correlation: {numbers(right.tolist(), 1)}",
        "a convolution turns the kernel round, a correlation does not",
        tuple(printed.tolist()),
        tuple(right.tolist()),
    )


def unrolled() -> Slip:
    w, first, x = 0.5, 1.0, (1.0, 1.0, 1.0)
    h = [first]
    for each in x:
        h.append(w * h[-1] + each)
    printed = w**2 * h[1] + w**2 * x[0] + w * x[1] + x[2]
    return Slip(
        "Recurrence h_n = w h_(n−1) + x_n unrolled: w^(n−1) h_1 + w^(n−1) x_1 + …",
        f"{printed:g} for n = 3, w = ½, h_0 = 1 and inputs of 1",
        f"wⁿ h_0 + w^(n−1) x_1 + … = {h[3]:g}",
        "h_1 has x_1 in it already",
        (printed,),
        (h[3],),
    )


def hopfield_gradient() -> Slip:
    x = torch.tensor([1.0, -1, 1], dtype=torch.double)
    weight = torch.zeros(3, 3, dtype=torch.double, requires_grad=True)
    (-0.5 * x @ weight @ x).backward()
    right = torch.as_tensor(weight.grad).diagonal()[0].item()
    return Slip(
        "Hopfield energy E = −½ x W xᵀ: ∂E/∂W_ii = −x_i²",
        "−1",
        f"−½ x_i² = {numbers([right], 1)}",
        "the ½ stays; off the diagonal it goes, as W_ij and W_ji are one weight",
        (-1.0,),
        (right,),
    )


# --- generative models ------------------------------------------------------------------------------------------------


def gaussian_likelihood() -> Slip:
    normal = torch.distributions.Normal(torch.zeros((), dtype=torch.double), 1.0)
    x = torch.ones((), dtype=torch.double)
    constant = 0.5 * math.log(2 * math.pi)
    printed, right = -0.5 * x.item() ** 2 + constant, -normal.log_prob(x).item()
    return Slip(
        "Gaussian decoder: −ln p(x∣z) = −‖x − d(z)‖² / 2σ² + C, to be maximised",
        f"{printed:.3f} for x = 1, d = 0 and σ = 1",
        f"+‖x − d(z)‖² / 2σ² + C = {right:.3f}, to be minimised",
        "a negative log-likelihood grows with the error",
        (printed,),
        (right,),
    )


def kl_divergence() -> Slip:
    q, p = (torch.distributions.Normal(torch.tensor(mean).double(), 1.0) for mean in (1.0, 0.0))
    z = torch.linspace(-9, 11, 20_001, dtype=torch.double)
    log_q, log_p = q.log_prob(z), p.log_prob(z)
    printed = -torch.trapezoid(log_q.exp() * log_q.exp() * (log_p - log_q), z).item()
    right = torch.distributions.kl_divergence(q, p).item()
    return Slip(
        "KL divergence: −E_q[q(z) ln p(z)/q(z)]",
        f"{printed:.3f} for q = N(1, 1) and p = N(0, 1)",
        f"−E_q[ln p(z)/q(z)] = {right:.3f}",
        "the expectation has the factor q(z) already",
        (printed,),
        (right,),
    )


BETAS = torch.tensor([0.1, 0.2, 0.3], dtype=torch.double)


def noise_schedule() -> Slip:
    printed, right = 1 - BETAS.prod().item(), (1 - BETAS).prod().item()
    return Slip(
        "Diffusion: ᾱ_t as 1 − β_1 … β_t",
        f"{printed:.3f} for β = 0.1, 0.2, 0.3",
        f"(1 − β_1) … (1 − β_t) = {right:.3f}",
        "each step keeps the share 1 − β of the variance that is left",
        (printed,),
        (right,),
    )


def posterior_mean() -> Slip:
    alpha, bar = 1 - BETAS[2].item(), torch.cumprod(1 - BETAS, 0)[2].item()
    printed, right = math.sqrt(1 - bar), BETAS[2].item() / math.sqrt(1 - bar)
    return Slip(
        "Diffusion: the posterior mean μ_q = (x_t − √(1 − ᾱ_t) ε) / √α_t",
        f"a factor of {printed:.3f} before ε for the third of these β",
        f"β_t / √(1 − ᾱ_t) = {right:.3f}",
        f"all of the noise would go in one step (α_t = {alpha:g}); the notes' own sampling step has the right one",
        (printed,),
        (right,),
    )


# --- robustness -------------------------------------------------------------------------------------------------------


def sign_method() -> Slip:
    gradient, eps = torch.tensor([3.0, -1, 0.5], dtype=torch.double), 0.1
    plain, signed = eps * gradient / gradient.abs().max(), eps * gradient.sign()
    printed, right = (gradient @ plain).item(), (gradient @ signed).item()
    return Slip(
        "Fast gradient sign method: the sign is there because training cannot adjust to it",
        f"along the gradient (3, −1, ½) the loss rises by {printed:.3f} for pixels that change by 0.1 at most",
        f"along its sign by {right:.3f}",
        "of all changes within ε in every pixel, ε sign(∇) raises the linearised loss most, by ε ‖∇‖₁",
        (printed,),
        (right,),
    )


def trades_penalty() -> Slip:
    clean, attacked = 1.0, -1.0
    printed, right = (F.softplus(-torch.tensor(margin).double()).item() for margin in (attacked**2, clean * attacked))
    return Slip(
        "TRADES: the penalty g(f(X') f(X'))",
        f"{printed:.3f} where an attack turns f from 1 to −1 (g(z) = ln(1 + e^(−z)))",
        f"g(f(X) f(X')) = {right:.3f}",
        "a square is never negative, so that a change of sign would cost nothing more",
        (printed,),
        (right,),
    )


# --- neurons ----------------------------------------------------------------------------------------------------------


def firing_rate() -> Slip:
    v_in, config = 2.0, LIFConfig(tau_m=20.0, tau_ref=2.0)
    right = rate(torch.tensor([v_in], dtype=torch.double), config).item()
    return Slip(
        "LIF neuron: firing rate 1 / (τ_m ln(1 − v_in)) for v_in > 1",
        "the logarithm of a negative number",
        f"1 / (τ_ref − τ_m ln(1 − 1/v_in)): {right:.1f} Hz for v_in = 2, τ_m = 20 ms and τ_ref = 2 ms",
        "v(t) = v_in (1 − e^(−t/τ_m)) reaches 1 at −τ_m ln(1 − 1/v_in), and the refractory period comes on top",
        (),
        (right,),
    )


def channel_currents() -> Slip:
    model = HodgkinHuxley(HodgkinHuxleyConfig())
    at_rest = steady_state(torch.tensor(model.rest, dtype=torch.double))
    membrane = model.numbers()
    n, m, h = (float(gate) for gate in at_rest[1:])
    sodium = membrane.sodium * m**3 * h * (model.rest - membrane.sodium_reversal)
    potassium = membrane.potassium * n**4 * (model.rest - membrane.potassium_reversal)
    return Slip(
        "Membranes: sodium channels that pump out, potassium channels that pump in",
        "sodium out, potassium in",
        f"at rest {numbers([sodium], 2)} µA/cm² of sodium (inwards) and +{potassium:.2f} of potassium (outwards)",
        "channels let ions run down their gradients; the pump alone brings them back",
        (),
        (sodium, potassium),
    )


def share_of_the_pump() -> Slip:
    model = HodgkinHuxley(HodgkinHuxleyConfig())
    axon = PumpedAxon(model, PumpConfig(diameter=1000.0))  # so thick that concentrations stay
    blocked = axon.simulate(torch.zeros(1, dtype=torch.double), duration=300, dt=0.05, blocked=True)
    right = blocked.voltages[-1].item() - model.rest
    return Slip(
        "Resting potential: −70 mV, enforced by the pump",
        "all of it",
        f"directly {right:.1f} mV: so much the voltage rises when the pump of our model is blocked",
        "the pump keeps the concentrations; at these, open potassium channels hold the voltage near E_K",
        (),
        (right,),
    )


def sampled_noise() -> Slip:
    points, sigma = 1_000, 0.1
    noise = sigma * np.random.default_rng(0).normal(size=(points, 5))
    right = float(np.square(noise).sum(0).mean())
    return Slip(
        "Noise on activities: εᵀε ≈ σ² I",
        f"{sigma**2:g} on the diagonal for σ = {sigma:g}",
        f"P σ² I for P sample points: {right:.2f} for {points:,}",
        "the product sums over the sample points; so the penalty on decoders is P σ² ‖D‖²",
        (sigma**2,),
        (right,),
    )


def predictive_gradient() -> Slip:
    nu = 2.0
    config = PredictiveCodingConfig(hidden_sizes=(3,), direction="down", nu_down=nu, shape=(2,), outputs=2)
    model = initialised(lambda: PredictiveCoding(config), seed=0).double()
    x: list[Tensor] = [torch.ones(1, size, dtype=torch.double) for size in config.sizes]
    x[0].requires_grad_()
    model.energy(x).sum().backward()
    error = model.errors(x)[-1].detach()[0, 0].item()  # of the input, which nothing else reads
    right = torch.as_tensor(x[0].grad)[0, 0].item()
    return Slip(
        "Predictive coding: ∇_x F = ε − … with ε = (x − μ) / ν",
        f"ε = {numbers([error])} for an input unit with ν = {nu:g}",
        f"ε / ν = {numbers([right])}",
        "∂ε/∂x is 1/ν; the formula printed is that of ν = 1",
        (error,),
        (right,),
    )


SLIPS: tuple[Callable[[], Slip], ...] = (
    softmax_of_scores,
    row_of_weights,
    shapes_of_attention,
    width_of_positions,
    kernel_weights,
    backward_calls,
    sign_of_descent,
    bernoulli_likelihood,
    shrinking,
    correlation,
    unrolled,
    hopfield_gradient,
    gaussian_likelihood,
    kl_divergence,
    noise_schedule,
    posterior_mean,
    sign_method,
    trades_penalty,
    firing_rate,
    channel_currents,
    share_of_the_pump,
    sampled_noise,
    predictive_gradient,
)


if __name__ == "__main__":
    main(sys.argv[1:])
