import pytest

from neuropil.inspection.report.page import Text
from neuropil.tasks.report import learning_section
from neuropil.training.config import TrainingConfig

HISTORY = [
    {"kind": "train", "step": 1, "epoch": 1.0, "seconds": 0.5, "loss": 2.0, "learning_rate": 0.1},
    *(
        {"kind": "validation", "step": epoch, "epoch": epoch, "seconds": epoch, "loss": loss}
        for epoch, loss in enumerate([2.0, 1.0, 1.5, 1.0], start=1)
    ),
]
RING = "the ring marks the lowest validation loss."


@pytest.mark.parametrize(
    ("training", "words"),
    [
        (TrainingConfig(), f"The weights with the best validation loss are kept; {RING}"),
        (TrainingConfig(keep="last"), f"The weights of the last step are kept; {RING}"),
        (
            TrainingConfig(keep="last", patience=2),
            "It stopped early, at epoch 4: 2 validations in a row did not improve the loss. "
            f"The weights with the best validation loss are kept; {RING}",
        ),
        (TrainingConfig(patience=3), f"The weights with the best validation loss are kept; {RING}"),
    ],
)
def test_the_report_says_which_weights_are_kept_and_when_a_run_stopped_early(training, words):
    assert learning_section(HISTORY, training).blocks[0] == Text(f"Training took 4.0 seconds. {words}")
