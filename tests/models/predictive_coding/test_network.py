"""Predictive coding settles down its energy, by what neighbours know alone, and learns from where it ends."""

import math
from typing import Any, Literal

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from torch import Tensor, nn

from neuropil.errors import InputError
from neuropil.models.predictive_coding.connection import approach
from neuropil.models.predictive_coding.network import (
    Free,
    PredictiveCoding,
    PredictiveCodingConfig,
    SlopedName,
    States,
    energy_of,
)
from neuropil.models.predictive_coding.settled_energy import SettledEnergy
from real_data import digits

DIRECTIONS = ("up", "down", "both")


def network(seed: int = 0, **options: Any) -> PredictiveCoding:
    torch.manual_seed(seed)
    return PredictiveCoding(
        PredictiveCodingConfig(**{"hidden_sizes": (7, 6), "shape": (5,), "outputs": 4, **options})
    ).double()


def random_states(model: PredictiveCoding, batch: int = 3) -> States:
    return [torch.randn(batch, size, dtype=torch.double) for size in model.config.sizes]


def between(model: PredictiveCoding) -> Free:
    """Both ends held."""
    return [False, *[True] * (model.top - 1), False]


def example_batch(model: PredictiveCoding, count: int = 6) -> dict[str, Tensor]:
    shape = model.config.shape
    return {
        "input": torch.randn(count, *shape, dtype=torch.double),
        "target": torch.randint(0, model.config.outputs, (count,)),
    }


# --- settling ---------------------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 10_000),
    hidden=st.lists(st.integers(1, 9), max_size=4).map(tuple),
    direction=st.sampled_from(DIRECTIONS),
    activation=st.sampled_from(["tanh", "logistic", "softplus", "arctan", "gelu", "identity"]),
    spreads=st.tuples(*[st.floats(0.5, 3.0)] * 3),
    held=st.lists(st.sampled_from(["all", "none", "some"]), min_size=6, max_size=6),
)
def test_no_step_of_settling_raises_the_energy(
    seed: int,
    hidden: tuple[int, ...],
    direction: Literal["up", "down", "both"],
    activation: SlopedName,
    spreads: tuple[float, float, float],
    held: list[str],
):
    options: dict[str, Any] = dict(zip(("nu_up", "nu_down", "nu_target"), spreads, strict=True))
    model = network(seed, hidden_sizes=hidden, direction=direction, activation=activation, **options)
    states, rates = (
        random_states(model),
        [0.3 * rate for rate in model.stable_rates()],
    )  # a curved activation bends the energy too
    kinds: dict[str, Any] = {"all": False, "none": True}
    free = [kinds.get(kind, torch.rand(size) < 0.5) for kind, size in zip(held, model.config.sizes, strict=False)]
    with torch.no_grad():
        energies = torch.stack(
            [model.energy(each) for each in [states, *model.settling(states, free, 12, rates=rates)]]
        )
    assert (energies[1:] <= energies[:-1] * (1 + 1e-12)).all()


def test_without_weights_every_rate_is_stable():
    model = PredictiveCoding(PredictiveCodingConfig(hidden_sizes=(3,), direction="up", shape=(2,), outputs=2))
    torch.nn.init.zeros_(model.connections[0].weight)
    assert model.rates()[0] == model.config.rate
    states = model(torch.randn(4, 2), torch.tensor([0, 1, 1, 0]))
    assert all(state.isfinite().all() for state in states)


@settings(deadline=None, max_examples=25)
@given(
    seed=st.integers(0, 10_000),
    hidden=st.lists(st.integers(1, 9), max_size=4).map(tuple),
    direction=st.sampled_from(DIRECTIONS),
    spreads=st.tuples(*[st.floats(0.5, 3.0)] * 3),
)
def test_stable_rates_are_below_the_limit_that_the_curvature_sets(
    seed: int, hidden: tuple[int, ...], direction: Literal["up", "down", "both"], spreads: tuple[float, float, float]
):
    options: dict[str, Any] = dict(zip(("nu_up", "nu_down", "nu_target"), spreads, strict=True))
    model = network(seed, hidden_sizes=hidden, direction=direction, activation="identity", **options)
    sizes = model.config.sizes

    def energy(flat: Tensor) -> Tensor:
        return model.energy(list(flat[None].split(sizes, dim=1))).sum()

    curvature = torch.autograd.functional.hessian(energy, torch.randn(sum(sizes), dtype=torch.double))
    roots = torch.tensor(model.stable_rates(), dtype=torch.double).sqrt().repeat_interleave(torch.tensor(sizes))
    assert torch.linalg.eigvalsh(roots[:, None] * curvature * roots).max() <= 1 + 1e-9


def test_it_comes_to_rest_where_no_force_is_left():
    model = network(direction="both", activation="tanh", nu_down=1.0)
    states, rates = random_states(model), model.stable_rates()
    with torch.no_grad():
        rest = model.settle(states, between(model), 1_000, rates=rates)
        after = model.settle(rest, between(model), 1, rates=rates)
    assert all(torch.allclose(a, b, atol=1e-9) for a, b in zip(rest, after, strict=True))
    assert (model.energy(rest) < model.energy(states)).all()


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_what_is_held_stays_to_the_last_bit(direction: Literal["up", "down", "both"]):
    model = network(direction=direction)
    states = random_states(model)
    known = torch.tensor([True, False, True, False, False])
    with torch.no_grad():
        settled = model.settle(states, [~known, True, False, True], 5)
    assert torch.equal(settled[0][:, known], states[0][:, known])
    assert not torch.isclose(settled[0][:, ~known], states[0][:, ~known]).any()
    assert torch.equal(settled[2], states[2])
    assert not torch.isclose(settled[1], states[1]).any()


def test_no_steps_leave_the_states_as_they_are():
    model = network()
    states = random_states(model)
    assert all(torch.equal(a, b) for a, b in zip(model.settle(states, between(model), 0), states, strict=True))


def test_an_upward_sweep_is_at_rest_until_a_target_is_held():
    model = network(direction="up")
    x, target = torch.randn(3, 5, dtype=torch.double), torch.randn(3, 4, dtype=torch.double)
    with torch.no_grad():
        free_states = model.begin(x, None)
        assert model.energy(free_states).abs().max() < 1e-20
        assert torch.allclose(model.settle(free_states, [False, True, True, True], 50)[3], free_states[3])
        assert (model.energy(model.begin(x, target)) > 0.1).all()


def test_an_upward_network_answers_as_a_plain_stack_of_layers_does():
    model = network(direction="up", activation="relu", answers="numbers")
    x = torch.randn(6, 5, dtype=torch.double)
    first, second, third = model.connections
    plain = nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, 6), nn.ReLU(), nn.Linear(6, 4)).double()
    with torch.no_grad():
        for layer, connection in zip(plain[::2], (first, second, third), strict=True):  # type: ignore[index]  # a slice is a Sequential
            layer.get_parameter("weight").copy_(connection.weight.T)
            layer.get_parameter("bias").copy_(connection.bias)
    # The network reads the sum of each layer, and its neighbours what the activation makes of it.
    torch.testing.assert_close(model(x), plain(x))


def test_probabilities_of_classes_sum_to_one():
    model = network()
    shares = model(torch.randn(9, 5, dtype=torch.double)).exp()
    torch.testing.assert_close(shares.sum(-1), torch.ones(9, dtype=torch.double))
    assert (shares > 0).all()


# --- error nodes in time ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("tau", [0.5, 8.0])
def test_error_nodes_in_time_come_to_rest_where_those_at_equilibrium_do(
    direction: Literal["up", "down", "both"], tau: float
):
    spreads: dict[str, Any] = {"nu_up": 0.8, "nu_down": 2.0, "nu_target": 1.5}
    still, moving = (network(direction=direction, activation="tanh", error_tau=each, **spreads) for each in (0, tau))
    states, nodes = still.begin(torch.randn(3, 5).double(), torch.randn(3, 4).double()), moving.silent_errors(3)
    with torch.no_grad():
        rest = still.settle(states, between(still), 2_000)
        found = moving.settle(states, between(moving), 2_000, errors=nodes)
    assert nodes is not None
    for a, b in zip(found, rest, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-9)
    for a, b in zip(nodes, still.errors(rest), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-9)


def test_error_nodes_much_faster_than_a_step_are_at_equilibrium_in_it():
    still, fast = network(nu_down=2.0), network(nu_down=2.0, error_tau=1e-3)
    states = random_states(still)
    for a, b in zip(still.settle(states, between(still), 20), fast.settle(states, between(fast), 20), strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("tau", [0.7, 4.0])
def test_settling_by_slow_error_nodes_is_descent_with_momentum(tau: float):
    """In a linear network with one ν, momentum and dampening are 1 − c."""
    model = network(direction="up", activation="identity", error_tau=tau)
    beta, states = math.exp(-1 / tau), random_states(model)
    hidden = [state.clone().requires_grad_() for state in states[1:-1]]
    optimizer = torch.optim.SGD(hidden, lr=0.05, momentum=beta, dampening=beta)
    for _ in range(30):
        optimizer.zero_grad()
        model.energy([states[0], *hidden, states[-1]]).sum().backward(inputs=hidden)
        optimizer.step()
    nodes = [error.detach() for error in model.errors(states)]  # PyTorch's first velocity is the whole gradient
    settled = model.settle(states, between(model), 30, rates=[0.05] * 4, errors=nodes)
    for a, b in zip(settled[1:-1], hidden, strict=True):
        torch.testing.assert_close(a, b.detach())


@pytest.mark.parametrize("tau", [0.0, 1.0, 5.0])
def test_steps_are_stable_up_to_the_stated_limit_and_not_beyond(tau: float):
    model = network(direction="up", activation="identity", error_tau=tau)
    states, sizes = random_states(model), model.config.sizes[1:-1]

    def energy(flat: Tensor) -> Tensor:
        return model.energy([states[0][:1], *flat[None].split(sizes, dim=1), states[-1][:1]]).sum()

    curvature = torch.autograd.functional.hessian(energy, torch.zeros(sum(sizes), dtype=torch.double))
    c = approach(1.0, tau)
    limit = 2 * (2 / c - 1) / torch.linalg.eigvalsh(curvature).max().item()
    with torch.no_grad():
        below, above = (
            model.settle(states, between(model), 1_500, rates=[factor * limit] * 4) for factor in (0.98, 1.02)
        )
        assert model.energy(below).max() < model.energy(states).max()
        assert not model.energy(above).max() < 1e6 * model.energy(states).max()


@settings(deadline=None, max_examples=15)
@given(
    seed=st.integers(0, 10_000),
    direction=st.sampled_from(DIRECTIONS),
    spreads=st.tuples(*[st.floats(0.5, 3.0)] * 3),
    tau=st.floats(0.05, 20.0),
)
def test_stable_rates_stay_stable_with_error_nodes_of_any_time_constant(
    seed: int, direction: Literal["up", "down", "both"], spreads: tuple[float, float, float], tau: float
):
    options: dict[str, Any] = dict(zip(("nu_up", "nu_down", "nu_target"), spreads, strict=True))
    model = network(seed, direction=direction, activation="identity", error_tau=tau, **options)
    states = random_states(model)
    with torch.no_grad():
        settled = model.settle(states, between(model), 600, rates=model.stable_rates())
        assert (model.energy(settled) < model.energy(states)).all()


def test_weights_learn_from_the_error_nodes_as_they_are():
    model = network(direction="both", error_tau=4.0, nu_down=2.0)
    learner, batch = SettledEnergy(model), example_batch(model)
    learner.loss(batch).backward()
    nodes = model.silent_errors(6)
    states = learner.settled(batch, nodes)
    assert nodes is not None
    assert not torch.allclose(nodes[0], model.errors(states)[0], atol=1e-2)
    for c, error in zip(model.connections, nodes, strict=True):
        # −σ(x)ᵀ ε / ν, the mean over the batch
        slope = -torch.einsum("bi,bj->ij", model.read(c.source, states[c.source]), error / c.nu) / 6
        torch.testing.assert_close(c.weight.grad, slope.detach())


def test_incremental_visits_go_on_from_the_error_nodes_and_so_does_a_learner_from_its_memory():
    model = network(error_tau=3.0)
    first, second, batch = SettledEnergy(model), SettledEnergy(model), example_batch(model)
    nodes = model.silent_errors(6)
    with torch.no_grad():
        beginning = model.begin(model.encode(batch["input"]), model.encode_target(batch["target"]))
        expected = model.settle(beginning, between(model), 3, errors=nodes)
        for visit in range(2):
            first.loss({**batch, "visit": torch.full((6,), visit)})
        second.load_state_dict(first.state_dict())
        for learner in (first, second):
            learner.loss({**batch, "visit": torch.full((6,), 2)})
            for a, b in zip([*learner.kept, *learner.kept_errors], [*expected, *(nodes or [])], strict=True):
                torch.testing.assert_close(a, b)
        first.loss({**batch, "visit": torch.zeros(6)})
        fresh = model.silent_errors(6)
        model.settle(beginning, between(model), 1, errors=fresh)
    for a, b in zip(first.kept_errors, fresh or [], strict=True):
        torch.testing.assert_close(a, b)


# --- what is local ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("feedback", ["tied", "separate"])
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_no_change_of_weights_reads_the_weights_of_another_connection(
    direction: Literal["up", "down", "both"], feedback: Literal["tied", "separate"]
):
    model = network(direction=direction, feedback=feedback, hidden_sizes=(7, 6, 8))
    states = random_states(model)
    names = [name for name, _ in model.named_parameters()]
    before = dict(zip(names, model.local_rules(states, model.errors(states)), strict=True))
    for own in model.connections:
        lost = network(direction=direction, feedback=feedback, hidden_sizes=(7, 6, 8))
        fill_with_nothing(lost, keep=lambda c, own=own: (c.source, c.target) == (own.source, own.target))
        after = dict(zip(names, lost.local_rules(states, lost.errors(states)), strict=True))
        kept = [name for name in names if not after[name].isnan().any()]
        assert len(kept) == len(list(own.parameters()))
        assert all(torch.equal(after[name], before[name]) for name in kept)


@pytest.mark.parametrize("feedback", ["tied", "separate"])
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_no_change_of_a_layer_reads_beyond_its_neighbours(
    direction: Literal["up", "down", "both"], feedback: Literal["tied", "separate"]
):
    options: dict[str, Any] = {"direction": direction, "feedback": feedback, "hidden_sizes": (7, 6, 8, 5)}
    model = network(**options)
    states = random_states(model)
    free, rates = [True] * len(states), [0.1] * len(states)
    with torch.no_grad():
        moved = model.settle(states, free, 1, rates=rates)
        for layer in range(len(states)):
            lost = network(**options)
            fill_with_nothing(lost, keep=lambda c, layer=layer: layer in (c.source, c.target))
            known = [x if abs(other - layer) <= 1 else x * torch.nan for other, x in enumerate(states)]
            assert torch.equal(lost.settle(known, free, 1, rates=rates)[layer], moved[layer])


def test_how_far_a_layer_moves_depends_on_its_own_connections_alone():
    model = network(hidden_sizes=(7, 6, 8, 5))
    norms = [1.0 + number for number, _ in enumerate(model.connections)]
    rates = model.stable_rates(norms=norms)
    for layer, rate in enumerate(rates):
        known = [
            norm if layer in (c.source, c.target) else torch.nan
            for c, norm in zip(model.connections, norms, strict=True)
        ]
        assert model.stable_rates(norms=known)[layer] == rate


def fill_with_nothing(model: PredictiveCoding, keep: Any) -> None:
    with torch.no_grad():
        for connection in model.connections:
            if not keep(connection):
                for parameter in connection.parameters():
                    parameter.fill_(torch.nan)


# --- learning ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("feedback", ["tied", "separate"])
def test_the_gradient_of_the_loss_is_the_local_rule(
    direction: Literal["up", "down", "both"], feedback: Literal["tied", "separate"]
):
    model = network(direction=direction, feedback=feedback)
    learner, batch = SettledEnergy(model), example_batch(model)
    loss = learner.loss(batch)
    (3 * loss).backward()
    with torch.no_grad():
        states = learner.settled(batch)
        rules = model.local_rules(states, model.errors(states))
    torch.testing.assert_close(loss.detach(), model.energy(states).mean().detach())
    for parameter, rule in zip(model.parameters(), rules, strict=True):
        torch.testing.assert_close(parameter.grad, 3 * rule)


def test_separate_feedback_weights_become_the_transposed_ones_as_fast_as_both_decay():
    model = network(direction="both", feedback="separate")
    learner, batch = SettledEnergy(model), example_batch(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, weight_decay=0.5)

    def differences() -> list[Tensor]:
        return [(c.feedback - c.weight.T).detach() for c in model.connections if c.feedback is not None]

    before = differences()
    for _ in range(20):
        optimizer.zero_grad()
        learner.loss(batch).backward()
        optimizer.step()
    # Both change alike, so that only the decay is left of the difference.
    for first, last in zip(before, differences(), strict=True):
        torch.testing.assert_close(last, (1 - 0.1 * 0.5) ** 20 * first)


def test_incremental_visits_settle_by_one_step_each_from_where_they_were():
    model = network()
    learner, batch = SettledEnergy(model), example_batch(model)
    with torch.no_grad():
        beginning = model.begin(model.encode(batch["input"]), model.encode_target(batch["target"]))
        expected = list(model.settling(beginning, between(model), 3))
        assert model.rates() != [0.1] * 4  # some of the steps are as long as is stable
        for visit, states in enumerate(expected):
            learner.loss({**batch, "visit": torch.full((6,), visit)})
            for kept, state in zip(learner.kept, states, strict=True):
                torch.testing.assert_close(kept, state)


def test_a_learner_goes_on_from_its_memory():
    model = network()
    first, second, batch = SettledEnergy(model), SettledEnergy(model), example_batch(model)
    first.loss({**batch, "visit": torch.zeros(6, dtype=torch.int64)})
    assert len(first.state_dict()) == 4 + 6  # states, and a direction for each connection
    second.load_state_dict(first.state_dict())
    visit = {**batch, "visit": torch.ones(6, dtype=torch.int64)}
    assert torch.equal(first.loss(visit), second.loss(visit))


def test_steps_become_shorter_as_the_weights_grow():
    model = network(hidden_sizes=(30, 20))
    learner, batch = SettledEnergy(model), example_batch(model)
    generator = torch.Generator().manual_seed(0)
    for update in range(300):
        with torch.no_grad():
            for c in model.connections:  # one direction outgrows the others
                c.weight.mul_(0.99)
                c.weight[0] += 0.05 * torch.rand(c.weight.shape[1], generator=generator)
        learner.loss(batch)
        followed = learner.state_dict()
        for number, c in enumerate(model.connections):
            estimate, norm = (followed[f"stretched.{number}"] @ c.weight).norm(), torch.linalg.matrix_norm(c.weight, 2)
            assert 0.9 * norm < estimate < (1 + 1e-12) * norm, update
    with torch.no_grad():
        energies = [model.energy(states).mean() for states in model.settling(random_states(model), between(model), 50)]
    assert energies == sorted(energies, reverse=True)


def test_the_measured_loss_is_the_settled_energy_and_looking_changes_nothing():
    model = network()
    learner, batch = SettledEnergy(model), example_batch(model)
    before = learner.state_dict()
    with torch.no_grad():
        metrics = learner.metrics(batch)
        assert set(metrics) == {"loss", "energy", "accuracy"}
        assert all(torch.equal(value, before[name]) for name, value in learner.state_dict().items())
        torch.testing.assert_close(metrics["loss"].mean(), learner.loss(batch))
        assert torch.equal(metrics["energy"], metrics["loss"])


# --- digits -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trained() -> PredictiveCoding:
    """On the first 1,200 digits, in a plain loop."""
    images, labels = (torch.from_numpy(array) for array in digits())
    torch.manual_seed(0)
    model = PredictiveCoding(PredictiveCodingConfig(hidden_sizes=(48,)))
    model.standardize.fit(images[:1200, None])
    learner = SettledEnergy(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    for _ in range(10):
        for x, t in zip(images[:1200, None].split(60), labels[:1200].split(60), strict=True):
            optimizer.zero_grad()
            learner.loss({"input": x, "target": t}).backward()
            optimizer.step()
    return model.eval()


def test_one_network_tells_unseen_digits_apart(trained: PredictiveCoding):
    images, labels = (torch.from_numpy(array) for array in digits())
    with torch.no_grad():
        assert (trained(images[1200:, None]).argmax(-1) == labels[1200:]).double().mean() > 0.9


def test_what_it_generates_for_a_class_is_taken_for_that_class_by_another_classifier(trained: PredictiveCoding):
    images, labels = digits()
    judge = LogisticRegression(max_iter=300, tol=1e-3).fit(images.reshape(len(images), -1) / 255, labels)
    with torch.no_grad():
        pictures = trained.generate(torch.arange(10))
    assert pictures.shape == (10, 1, 8, 8)
    assert judge.predict(pictures.flatten(1).clamp(0, 255).numpy() / 255).tolist() == list(range(10))


def test_covered_halves_are_completed_better_than_by_the_mean(trained: PredictiveCoding):
    images = torch.from_numpy(digits()[0])
    unseen, known = images[1200:, None].float(), torch.zeros(1, 8, 8, dtype=torch.bool)
    known[:, :4] = True
    with torch.no_grad():
        whole = trained.complete(unseen, known, steps=300)
    assert torch.allclose(whole[:, known], unseen[:, known], atol=1e-3)
    mean = images[:1200].float().mean(0)[4:]
    wrong, usual = (whole - unseen)[:, 0, 4:], mean - unseen[:, 0, 4:]
    assert wrong.square().mean() < 0.95 * usual.square().mean()


@pytest.mark.parametrize("tau", [0.0, 3.0])
def test_watching_a_completion_changes_nothing(tau: float):
    model = network(direction="both", error_tau=tau)
    x, known = torch.randn(2, 5).double(), torch.tensor([True, True, False, True, False])
    path = list(model.completing(x, known, 20, every=7))
    assert len(path) == 4  # the beginning, and after 7, 14 and 20 steps
    assert torch.allclose(model.decode(path[-1][0]), model.complete(x, known, 20))
    if not tau:
        energies = torch.stack([energy_of(model.errors(states, model.expecting)) for states in path])
        assert (energies.diff(dim=0) <= 0).all()


def test_no_step_of_completion_leaves_the_mean():
    model, known = network(), torch.tensor([True, False, False, True, True])
    x = torch.ones(1, 5).double()
    assert model.complete(x, known, 0)[0].tolist() == [1, 0, 0, 1, 1]


# --- what is refused --------------------------------------------------------------------------------------------------


def test_a_class_that_there_is_not_is_refused():
    with pytest.raises(InputError) as error:
        network().generate(torch.tensor([1, 4]))
    assert str(error.value) == "a class must be a number from 0 to 3, but got 4."


def test_a_mask_of_another_shape_is_refused():
    with pytest.raises(InputError) as error:
        network().complete(torch.randn(2, 5, dtype=torch.double), torch.ones(2, 5, dtype=torch.bool))
    assert str(error.value) == "known must say of each unit of one input, [5], whether it is known, but got [2, 5]."
