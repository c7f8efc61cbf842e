import math

import numpy as np
import pytest
import torch
from matplotlib.axes import Axes

from neuropil.errors import InputError
from neuropil.inspection.pictures.training import (
    accuracy_over_examples_and_seconds,
    covariate_shift,
    descent_as_flow,
    learning_curve,
    learning_curves,
    learning_speed,
    metric_names,
    optimizer_paths,
    regularization_curves,
)
from neuropil.inspection.report.svg import figure_svg


def validation_rows(*losses: float) -> list[dict]:
    rows = [{"kind": "train", "epoch": 0.5, "loss": 9.0}]
    return rows + [
        {"kind": "validation", "epoch": epoch, "loss": loss, "accuracy": 1 - loss}
        for epoch, loss in enumerate(losses, 1)
    ]


def test_learning_curves_show_every_validation_of_each_network():
    figure = learning_curves({"slow": validation_rows(0.9, 0.8, 0.7), "fast": validation_rows(0.5, 0.2)}, "loss")
    assert points(figure.axes[0], "slow").tolist() == [[1, 0.9], [2, 0.8], [3, 0.7]]
    assert points(figure.axes[0], "fast").tolist() == [[1, 0.5], [2, 0.2]]
    assert figure.axes[0].get_ylabel() == "validation loss"


def test_the_legend_stands_in_the_order_in_which_the_curves_end():
    names = {"low": validation_rows(0.9, 0.1), "high": validation_rows(0.2, 0.8), "middle": validation_rows(0.5, 0.5)}
    (legend,) = learning_curves(names, "loss").legends
    assert [text.get_text() for text in legend.get_texts()] == ["high", "middle", "low"]


def test_accuracies_read_as_per_cent_and_losses_over_decades_are_logarithmic():
    (axes,) = learning_curves({"one": validation_rows(0.5, 0.2)}, "accuracy").axes
    assert axes.yaxis.get_major_formatter()(0.5, 0) == "50.0 %"
    (axes,) = learning_curves({"one": validation_rows(0.9, 0.01)}, "loss").axes
    assert axes.get_yscale() == "log"


def test_a_network_that_was_never_validated_is_named():
    with pytest.raises(InputError) as error:
        learning_curves({"good": validation_rows(0.5), "empty": validation_rows()}, "loss")
    assert str(error.value) == "learning curves need at least one validation of each network, but got none for empty."


def test_learning_rules_have_one_line_over_examples_and_one_over_seconds():
    slow, fast = np.array([[100, 2.0, 0.5], [200, 4.0, 0.7]]), np.array([[100, 0.1, 0.6], [200, 0.2, 0.9]])
    figure = accuracy_over_examples_and_seconds({"slow": slow, "fast": fast}, {"chance": 0.1})
    examples, seconds = figure.axes
    assert points(examples, "slow").tolist() == [[100, 0.5], [200, 0.7]]
    assert points(seconds, "fast").tolist() == [[0.1, 0.6], [0.2, 0.9]]
    assert examples.get_xscale() == seconds.get_xscale() == "log"
    assert points(seconds, "chance")[:, 1].tolist() == [0.1, 0.1]
    heights = [examples.transData.transform((100, accuracy))[1] for accuracy in (0.9, 0.95, 1.0)]
    assert heights[1] - heights[0] < heights[2] - heights[1], "the nearer to 100 %, the wider the axis"
    with pytest.raises(InputError):
        accuracy_over_examples_and_seconds({}, {})


def history(steps: int = 20, *, overfits: float = 0.0, floor: float = 0.1) -> list[dict]:
    """The loss falls exponentially; validation turns up again after the middle."""
    rows: list[dict] = []
    for step in range(1, steps + 1):
        loss = floor + math.exp(-4 * step / steps)
        rows.append(
            {
                "step": step,
                "epoch": step / 10,
                "kind": "train",
                "loss": loss,
                "learning_rate": 0.1 / step,
                "seconds": 0.5 * step,
            }
        )
        if step % 2 == 0:
            risen = loss + overfits * max(0, step - steps / 2) / steps
            rows.append(
                {"step": step, "epoch": step / 10, "kind": "validation", "accuracy": 1 - risen / 2, "loss": risen}
            )
    return rows


def points(axes: Axes, label: str) -> np.ndarray:
    (line,) = [line for line in axes.lines if line.get_label() == label]
    return np.asarray(line.get_xydata())


def test_a_learning_curve_shows_every_row_of_training_and_validation():
    rows = history()
    loss, accuracy, rate = learning_curve(rows).axes
    np.testing.assert_allclose(
        points(loss, "train"), [(row["step"], row["loss"]) for row in rows if row["kind"] == "train"]
    )
    np.testing.assert_allclose(
        points(loss, "validation"), [(row["step"], row["loss"]) for row in rows if row["kind"] == "validation"]
    )
    np.testing.assert_allclose(
        points(accuracy, "validation")[:, 1], [row["accuracy"] for row in rows if row["kind"] == "validation"]
    )
    np.testing.assert_allclose(
        np.asarray(rate.lines[0].get_ydata()), [row["learning_rate"] for row in rows if row["kind"] == "train"]
    )


def test_the_best_step_is_that_of_the_lowest_validation_loss():
    rows = history(40, overfits=1.0)
    best = min((row for row in rows if row["kind"] == "validation"), key=lambda row: row["loss"])
    loss, accuracy, _ = learning_curve(rows).axes
    assert points(loss, "best step").tolist() == [[best["step"], best["loss"]]]
    assert loss.get_title(loc="left") == f"loss: {best['loss']:.3g} at step {best['step']}"
    assert accuracy.get_title(loc="left") == f"accuracy: {100 * best['accuracy']:.1f} % at step {best['step']}"


def test_the_run_may_say_which_step_was_best():
    loss, *_ = learning_curve(history(), best_step=4).axes
    assert points(loss, "best step")[0, 0] == 4


@pytest.mark.parametrize(("floor", "scale"), [(0.5, "linear"), (1e-3, "log")])
def test_a_loss_that_spans_decades_has_a_logarithmic_axis(floor: float, scale: str):
    assert learning_curve(history(floor=floor)).axes[0].get_yscale() == scale


def test_a_long_noisy_curve_is_smoothed_without_moving_it():
    rows = [{"step": step, "kind": "train", "loss": 1 + 0.002 * step} for step in range(1000)]
    (axes,) = learning_curve(rows).axes
    smooth = points(axes, "train")
    np.testing.assert_allclose(smooth[:, 1], 1 + 0.002 * smooth[:, 0], atol=0.002)


def test_what_is_not_finite_is_left_out():
    rows = [
        *history(),
        {"step": 21, "kind": "train", "loss": math.nan},
        {"step": 22, "kind": "validation", "loss": math.inf, "accuracy": 0.5},
    ]
    loss, *_ = learning_curve(rows).axes
    assert points(loss, "train")[-1, 0] == 20
    assert points(loss, "validation")[-1, 0] == 20


def test_metrics_are_those_of_validation_and_loss_comes_first():
    assert metric_names(history()) == ["loss", "accuracy"]
    assert metric_names([row for row in history() if row["kind"] == "train"]) == ["loss"]


def test_a_history_without_metrics_is_refused():
    with pytest.raises(InputError) as error:
        learning_curve([{"step": 1, "kind": "train", "seconds": 2.0}])
    assert str(error.value) == "a learning curve needs rows with a metric such as a loss, but got 1 rows without one."


def test_every_regularisation_is_drawn_beside_the_baseline_on_the_same_axes():
    histories = {
        "none": history(overfits=2.0),
        "dropout": history(overfits=0.5),
        "weight decay": history(),
        "early stopping": history(10),
    }
    figure = regularization_curves(histories)
    panels = [axes for axes in figure.axes if axes.get_visible()]
    assert [panel.get_title(loc="left").strip() for panel in panels] == list(histories)
    assert len({panel.get_ylim() for panel in panels}) == len({panel.get_xlim() for panel in panels}) == 1
    for panel in panels[1:]:
        np.testing.assert_allclose(points(panel, "validation without regularisation"), points(panels[0], "validation"))


def test_the_gap_between_training_and_validation_is_written_out():
    rows = history(overfits=2.0)
    gap = [row["loss"] for row in rows if row["kind"] == "validation"][-1] - [
        row["loss"] for row in rows if row["kind"] == "train"
    ][-1]
    (panel,) = regularization_curves({"none": rows}).axes
    assert f"gap {gap:.2g}" in [text.get_text() for text in panel.texts]


def test_regularisation_without_validation_is_refused():
    with pytest.raises(InputError) as error:
        regularization_curves({"none": [row for row in history() if row["kind"] == "train"]})
    assert str(error.value) == (
        "a picture of regularisation needs a training and a validation loss for each, but got a history of 'none' "
        "without one."
    )


def test_racers_are_drawn_until_they_leave_for_good():
    grid = torch.linspace(-2, 2, 30)
    surface = grid[None] ** 2 + 10 * grid[:, None] ** 2
    healthy = torch.tensor([[1.5, 1.0], [1.0, 0.5], [0.1, 0.0]])
    diverged = torch.tensor([[1.5, 1.0], [1.9, -9.0], [torch.inf, torch.nan]])
    losses = {"Adam": [12.25, 3.5, 0.01], "too fast": [12.25, 800.0, math.inf]}
    figure = optimizer_paths(grid, grid, surface, {"Adam": healthy, "too fast": diverged}, losses)
    above, beside = figure.axes
    assert [len(np.asarray(line.get_xdata())) for line in above.lines if len(np.asarray(line.get_xdata())) > 1] == [
        3,
        2,
    ]
    np.testing.assert_allclose(points(beside, "too fast"), [(0, 12.25), (1, 800)])
    assert above.get_ylim() == (-2, 2)
    assert beside.get_yscale() == "log"
    assert len(figure_svg(figure)) < 200_000


def test_learning_speed_leaves_out_what_diverged():
    by_rate = {"plain": {0.1: 2.0, 1.0: math.inf}, "normed": {0.1: 1.0, 1.0: 0.5}}
    rates, epochs = learning_speed(by_rate, {"plain, η = 0.1": [3.0, 2.0]}).axes
    assert points(rates, "plain").tolist() == [[0.1, 2.0]]
    assert points(rates, "normed").tolist() == [[0.1, 1.0], [1.0, 0.5]]
    assert points(epochs, "plain, η = 0.1").tolist() == [[1, 3.0], [2, 2.0]]
    learning_speed({"plain": {0.1: math.inf}}, {"plain, η = 0.1": []})  # every training diverged


def test_shift_and_spread_stand_side_by_side():
    shift, spread = covariate_shift({"plain": ([0.0, 0.5], [1.0, 2.0])}).axes
    assert points(shift, "plain").tolist() == [[1, 0.0], [2, 0.5]]
    assert points(spread, "plain").tolist() == [[1, 1.0], [2, 2.0]]


def test_a_descent_has_the_colour_of_its_flow():
    x = np.linspace(0, 1, 5)
    path = np.array([(0.0, 0.0), (0.5, 0.5)])
    distances = {"slope 1": [(0.1, 0.2), (0.05, 0.1)]}
    above, beside = descent_as_flow(x, x, np.outer(x, x), {"flow": path}, {"descent": path}, distances).axes
    flow, descent = (line for line in above.lines if line.get_label() in ("flow", "descent"))
    assert flow.get_color() == descent.get_color()
    assert points(beside, "slope 1").tolist() == [[0.1, 0.2], [0.05, 0.1]]
