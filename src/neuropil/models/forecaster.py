"""Forecaster: a recurrent net that reads what has been and writes quantiles of what will be, beside a linear forecast.

    ŷ_{T+h} = b_h + Σ_k A_hk y_{T−k}                      the linear forecast, fitted before training and left as it is
    z_t = (y_t − c) / s,  ẑ_t = (ŷ_t − c) / s             c, s: mean and mean deviation of what the net reads
    e_t = f(z_t, x_t; e_{t−1})                            the encoder reads the history,  t ≤ T
    d_h = g(ẑ_{T+h}, h/H, x_{T+h}; d_{h−1}),  d_0 = e_T   the decoder reads what is known of the future,  h = 1 … H
    m_h = ẑ_{T+h} + κ w·d_h                               median: the linear forecast and a correction
    q_h(½ ± j) = m_h ± s^{γ−1} Σ_{i≤j} softplus(v_i·d_h + r_ih)         quantiles, which cannot cross
    y_{T+h} = c + s q_h                                   q_h: mean over networks that differ in their first weights

f and g are recurrences of any cell. x is known in advance: the calendar and the user's covariates. The net measures
each window in its own level and spread, so what it learns of one time holds at another, where the series stands higher
and swings more. Whether errors grow with the swing is another matter: in y, bands are as wide as s^γ, with γ from 0 to
1 by the training part. All steps of the horizon are written at once (MQ-RNN, Wen et al. 2017), not fed back, and
learned by the pinball loss of all quantiles, by each net for itself:

    ρ_τ(y, q) = max(τ (y − q), (τ − 1) (y − q))

Each net learns with κ = 1. What is learned of one time is often wrong at another, so the mean of all is taken with
κ = ½, halfway to the linear forecast: means of forecasts err less than each.
"""

from collections.abc import Mapping
from typing import Self

import torch
from einops import rearrange
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from neuropil.config import Config, from_data, option
from neuropil.errors import InputError
from neuropil.models.recurrent import CELLS, CellName
from neuropil.parts.losses import weighted_mean
from neuropil.parts.objectives import Objective, loss_weights, measured_weight, step_mean
from neuropil.parts.parameters import Model, TypedModuleList
from neuropil.parts.recurrence import Recurrence
from neuropil.parts.standardize import Standardize
from neuropil.protocols import Batch
from neuropil.ranges import Range, times

BANDS = (0.5, 0.8, 0.9)
"""Shares of the truth that the bands around the median should hold."""
LEVELS = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95)
MEDIAN = len(BANDS)
GAMMAS = (0.0, 0.25, 0.5, 0.75, 1.0)
"""γ that are tried."""


class ForecasterConfig(Config):
    cell: CellName = option("gru", "recurrent cell of the encoder and of the decoder")
    hidden_size: int = option(32, "hidden size", low=1, tune=times(1 / 2, 1, 2))
    layers: int = option(1, "number of layers of the encoder and of the decoder", low=1)
    dropout: float = option(0.1, "dropout probability", low=0, high=0.9, tune=Range(0, 0.5))
    members: int = option(4, "networks in the ensemble; they share the linear forecast", low=1)
    correction: float = option(
        0.5, "weight of the ensemble's correction in the forecast; the rest is the linear forecast's", low=0, high=1
    )
    lags: int = from_data(12, "values of history that the linear forecast rests on")
    context: int = from_data(12, "values of history that the networks read")
    features: int = from_data(4, "covariates that are known in advance at each step")
    steps: int = from_data(12, "forecast horizon in steps")


class Forecaster(Model):
    linear: Float[Tensor, "horizon coefficient"]
    """A and b: for each step the weights of the last values, the latest last, and then the constant."""
    gamma: Float[Tensor, ""]

    def __init__(self, config: ForecasterConfig):
        super().__init__()
        self.config = config
        self.standardize = Standardize((config.features,))
        self.register_buffer("linear", torch.zeros(config.steps, config.lags + 1))
        self.register_buffer("gamma", torch.ones(()))
        self.members = TypedModuleList[ForecastNetwork](ForecastNetwork(config) for _ in range(config.members))

    def forward(
        self, history: Float[Tensor, "batch time"], known: Float[Tensor, "batch whole feature"], average: bool = True
    ) -> Float[Tensor, "*member batch horizon level"]:
        """Quantiles at `LEVELS`, in the units of the history; without `average`, those of each net, with κ = 1."""
        self._require(history, known)
        lags, context = self.config.lags, self.config.context
        ahead = F.linear(history[:, -lags:], self.linear[:, :lags], self.linear[:, lags])  # batch horizon
        c, s = level_and_spread(history[:, -context:])  # batch 1
        z, ahead = (history[:, -context:] - c) / s, (ahead - c) / s
        x = self._scaled(known[:, -context - self.config.steps :])  # batch context+horizon feature
        width = s ** (self.gamma - 1)
        added = torch.stack([member(z, ahead, x, width) for member in self.members])  # member batch horizon level
        if average:
            added = added.mean(0)
            added = added - (1 - self.config.correction) * added[..., MEDIAN : MEDIAN + 1]
        return c.unsqueeze(-1) + s.unsqueeze(-1) * (ahead.unsqueeze(-1) + added)

    @torch.no_grad()
    def fit(self, batch: Batch, linear: Float[Tensor, "horizon coefficient"], rolled: Batch | None = None) -> Self:
        """What has a closed form, from windows of the training part: the scaling of what is known, and the widths of
        the bands by the errors of the linear forecast. The net begins as this forecast, and learns what is missing.

        `rolled` are windows with a `forecast` that was made without having seen them, whose errors are as large as
        those to come; without it, the errors are those of the linear forecast on the batch itself.
        """
        self.linear.copy_(linear)
        if self.config.features:
            self.standardize.fit(rearrange(batch["known"], "batch time feature -> (batch time) feature"))
        rolled = rolled or {**batch, "forecast": self(batch["history"], batch["known"])[..., MEDIAN]}
        errors, valid = rolled["target"] - rolled["forecast"], rolled["valid_mask"]
        _, s = level_and_spread(rolled["history"][:, -self.config.context :])

        def loss(gamma: float) -> float:
            around = offsets(gaps_between_quantiles(errors / s**gamma, valid)) * s.unsqueeze(-1) ** gamma
            return float(pinball(errors, around)[valid].mean())

        self.gamma.fill_(min(GAMMAS, key=loss))
        gaps = gaps_between_quantiles(errors / s**self.gamma, valid)
        for member in self.members:
            member.quantiles.set_widths(gaps)
        return self

    def _scaled(self, known: Float[Tensor, "batch time feature"]) -> Float[Tensor, "batch time feature"]:
        rows = self.standardize(rearrange(known, "batch time feature -> (batch time) feature"))
        return rearrange(rows, "(batch time) feature -> batch time feature", batch=len(known))

    def _require(self, history: Tensor, known: Tensor) -> None:
        config = self.config
        needed = max(config.lags, config.context)
        if history.shape[1] < needed:
            rule = f"this forecaster needs at least {needed} values of history"
            raise InputError(rule, got=f"{history.shape[1]}")
        expected = (len(history), history.shape[1] + config.steps, config.features)
        if known.shape != expected:
            what = f"what is known of the history and of the {config.steps} steps after it"
            raise InputError(f"{what} must have the shape {list(expected)}", got=f"{list(known.shape)}")


class ForecastNetwork(nn.Module):
    """One net: what it adds to the linear forecast at each step and quantile."""

    def __init__(self, config: ForecasterConfig):
        super().__init__()
        build, sizes = CELLS[config.cell], (config.hidden_size, config.layers)
        self.encoder = Recurrence(build, 1 + config.features, *sizes, dropout=config.dropout)
        self.decoder = Recurrence(build, 2 + config.features, *sizes, dropout=config.dropout)
        self.dropout = nn.Dropout(config.dropout)
        self.quantiles = Quantiles(config.hidden_size, config.steps)

    def forward(
        self,
        z: Float[Tensor, "batch time"],
        ahead: Float[Tensor, "batch horizon"],
        x: Float[Tensor, "batch whole feature"],
        width: Float[Tensor, "batch 1"],
    ) -> Float[Tensor, "batch horizon level"]:
        past, future = x.split([z.shape[1], ahead.shape[1]], 1)
        place = torch.linspace(1 / ahead.shape[1], 1, ahead.shape[1], device=z.device).expand_as(ahead)
        states = self.encoder(torch.cat([z.unsqueeze(-1), past], -1)).states
        d = self.decoder(torch.cat([torch.stack([ahead, place], -1), future], -1), states).outputs  # batch horizon unit
        return self.quantiles(self.dropout(d), width)


class Quantiles(nn.Module):
    """The median's correction, and above and below it gaps that are positive, so that quantiles are in order."""

    def __init__(self, units: int, horizon: int):
        super().__init__()
        self.output = nn.Linear(units, len(LEVELS))
        self.widths = nn.Parameter(torch.zeros(horizon, len(LEVELS) - 1))
        nn.init.zeros_(self.output.weight)
        nn.init.zeros_(self.output.bias)

    def forward(
        self, d: Float[Tensor, "batch horizon unit"], width: Float[Tensor, "batch 1"]
    ) -> Float[Tensor, "batch horizon level"]:
        y = self.output(d)
        correction, gaps = y[..., :1], F.softplus(y[..., 1:] + self.widths) * width.unsqueeze(-1)
        return correction + offsets(gaps)

    @torch.no_grad()
    def set_widths(self, gaps: Float[Tensor, "horizon gap"]) -> None:
        self.widths.copy_(gaps + torch.log(-torch.expm1(-gaps)))  # softplus⁻¹


def offsets(gaps: Float[Tensor, "*any gap"]) -> Float[Tensor, "*any level"]:
    """How far the quantiles lie from the median: the gaps below it, from the inside outwards, then those above."""
    below, above = gaps.split(MEDIAN, -1)
    middle = torch.zeros_like(gaps[..., :1])
    return torch.cat([-below.cumsum(-1).flip(-1), middle, above.cumsum(-1)], -1)


def gaps_between_quantiles(
    errors: Float[Tensor, "batch horizon"], valid: Bool[Tensor, "batch horizon"]
) -> Float[Tensor, "horizon gap"]:
    """Of the errors at each step of the horizon; where a step has none, of all.

    The next error lies outside the middle 80 % of n others more often than one time in five, so the levels are moved
    outwards by (n + 1) / n, as in conformal prediction. Errors h steps ahead from neighbouring origins share all but
    one of these steps, so n of them are worth n / h.
    """
    q = []
    for step in range(errors.shape[1]):
        seen = errors[valid[:, step], step]
        seen = seen if len(seen) else errors[valid]
        count = max(len(seen) / (step + 1), 1.0)
        levels = 0.5 + (torch.tensor(LEVELS, device=errors.device) - 0.5) * (count + 1) / count
        q.append(torch.quantile(seen, levels.clamp(0, 1)))
    q = torch.stack(q)  # horizon level
    return torch.cat([q[:, : MEDIAN + 1].diff().flip(-1), q[:, MEDIAN:].diff()], -1).clamp(min=1e-3)


class QuantileRegression(Objective[Forecaster]):
    """The pinball loss of all quantiles; steps that have no value do not count.

    Each net of a forecaster is trained by its own loss, and what is measured is the loss of their mean.
    """

    phase = "forecasting"
    fitted_start = True

    def loss(self, batch: Batch) -> Float[Tensor, ""]:
        q, valid = self.model(batch["history"], batch["known"], average=False), batch["valid_mask"]
        losses, weights = self._losses(batch, q)[:, valid], loss_weights(batch, valid)  # member, valid step
        return weighted_mean(losses, None if weights is None else weights[valid].expand_as(losses))

    def counted(self, batch: Batch) -> Bool[Tensor, "batch horizon"]:
        return batch["valid_mask"]

    def metrics(self, batch: Batch) -> Mapping[str, Float[Tensor, " batch"]]:
        valid, q = batch["valid_mask"], self.model(batch["history"], batch["known"])
        errors = (batch["target"] - q[..., MEDIAN]).abs()  # in units of each series' scale, as the values are
        weights = loss_weights(batch, valid)
        found = {"loss": step_mean(self._losses(batch, q), valid, weights), "mase": step_mean(errors, valid)}
        return found | measured_weight(weights, valid)

    def _losses(self, batch: Batch, q: Float[Tensor, "*any horizon level"]) -> Float[Tensor, "*any horizon"]:
        return pinball(batch["target"].expand(q.shape[:-1]), q).mean(-1)


def pinball(y: Float[Tensor, "*any"], q: Float[Tensor, "*any level"]) -> Float[Tensor, "*any level"]:
    """ρ_τ(y, q) at each of `LEVELS`."""
    tau = torch.tensor(LEVELS, device=q.device, dtype=q.dtype)
    error = y.unsqueeze(-1) - q
    return torch.maximum(tau * error, (tau - 1) * error)


def level_and_spread(history: Float[Tensor, "batch time"]) -> tuple[Float[Tensor, "batch 1"], Float[Tensor, "batch 1"]]:
    """c and s; a history that never moves has the spread 1."""
    c = history.mean(1, keepdim=True)
    s = (history - c).abs().mean(1, keepdim=True)
    rounding = 4 * torch.finfo(history.dtype).eps * history.abs().amax(1, keepdim=True)
    return c, torch.where(s > rounding, s, 1.0)


SIZES = {
    "small": ForecasterConfig(hidden_size=8),
    "base": ForecasterConfig(),
    "large": ForecasterConfig(hidden_size=64, layers=2),
}
