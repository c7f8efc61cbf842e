"""What an attack made of examples: to look at, to keep, and to measure a model by."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from einops import rearrange
from jaxtyping import Float, UInt8
from torch import Tensor

from neuropil.adversarial.attacks import AdversarialExamples
from neuropil.adversarial.threat_model import Norm
from neuropil.data.examples.dataset import Schema, restored
from neuropil.files import replacing
from neuropil.tasks.classification.threats import WHITE, unit_size
from neuropil.tasks.generated_examples import GeneratedExamples, require_savable

GREY = 127.5


@dataclass(frozen=True)
class AttackedExamples:
    """`distance` of each is in units of ε: pixels from 0 to 1, or standard deviations of columns."""

    found: AdversarialExamples
    schema: Schema
    names: Sequence[str]
    method: str
    norm: Norm

    def __len__(self) -> int:
        return len(self.names)

    @property
    def natural_risk(self) -> float:
        """R(f): the share that is misclassified as it is."""
        return 1 - self.found.clean_accuracy

    @property
    def robust_risk(self) -> float:
        """R_rob(f), as far as this attack finds it."""
        return 1 - self.found.robust_accuracy

    @property
    def accuracy(self) -> float:
        return self.found.clean_accuracy

    @property
    def robust_accuracy(self) -> float:
        return self.found.robust_accuracy

    @property
    def distance(self) -> Float[Tensor, " example"]:
        return self.found.distance.cpu() / unit_size(self.schema)

    @property
    def labels(self) -> list[str]:
        return [self.schema.classes[number] for number in self.found.labels.tolist()]

    @property
    def before(self) -> list[str]:
        """Predicted classes of the originals."""
        return [self.schema.classes[number] for number in self.found.predicted_before.tolist()]

    @property
    def after(self) -> list[str]:
        """Predicted classes of what the attack made of them."""
        return [self.schema.classes[number] for number in self.found.predicted_after.tolist()]

    @property
    def perturbed(self) -> Tensor:
        """As the model saw them: pictures as floats from 0 to 255, rows as the data has them."""
        return restored(self.found.perturbed.cpu(), self.schema)

    def lines(self) -> list[list[str]]:
        return [
            [f"{before} → {after}", "fooled" if success else "not fooled", f"{distance:.3g}"]
            for before, after, success, distance in self._rows()
        ]

    def records(self) -> list[dict[str, Any]]:
        return [
            {"before": before, "after": after, "fooled": success, "distance": distance}
            for before, after, success, distance in self._rows()
        ]

    def _rows(self) -> Sequence[tuple[str, str, bool, float]]:
        success, distance = self.found.success.tolist(), self.distance.tolist()
        return list(zip(self.before, self.after, success, distance, strict=True))

    def triples(self, chosen: Sequence[int]) -> UInt8[Tensor, "picture channel height width"]:
        """Of pictures, in turn: the original, the perturbation, amplified about grey, and the result, in shades that a
        picture file can hold."""
        index = torch.tensor(chosen, dtype=torch.long)
        original, perturbed = self.found.original.cpu()[index], self.found.perturbed.cpu()[index]
        factor = rearrange(torch.from_numpy(self.amplification(chosen)).float(), "picture -> picture 1 1 1")
        shown = GREY + (perturbed - original) * factor
        three = torch.stack([original, shown, perturbed], 1).flatten(0, 1)
        return three.round().clamp(0, WHITE).to(torch.uint8)

    def amplification(self, chosen: Sequence[int]) -> Float[np.ndarray, " picture"]:
        """By how much perturbations are drawn stronger than they are."""
        largest = (self.found.perturbed - self.found.original).abs().flatten(1).amax(1).cpu().double().numpy()
        found = largest[list(chosen)]
        return np.where(found > 0, GREY / np.where(found > 0, found, 1), 1)

    def largest_changes(self, index: int, most: int = 3) -> str:
        """Of a row: the columns that changed most, in units of ε."""
        original, changed = (restored(each.cpu()[index : index + 1], self.schema)[0] for each in self._both)
        names = [name for column in self.schema.columns for name in column.value_features]
        names = names or [f"feature {number}" for number in range(len(original))]
        order = (changed - original).abs().argsort(descending=True)[:most].tolist()
        return ", ".join(f"{names[i]} {original[i]:.6g} → {changed[i]:.6g}" for i in order if original[i] != changed[i])

    @property
    def _both(self) -> tuple[Tensor, Tensor]:
        return self.found.original, self.found.perturbed

    def save(self, path: str | Path) -> Path:
        """Pictures as a grid (.png, .jpg, .webp), in each row an original, its perturbation and the result; or arrays
        (.npz): originals, perturbed (as floats, as the model saw them) and class names."""
        path = Path(path)
        require_savable(path)
        if path.suffix.lower() not in (".npz", ".npy"):
            return GeneratedExamples(self.triples(range(len(self))), self.schema, columns=3).save(path)
        with replacing(path) as part, part.open("wb") as file:
            if path.suffix.lower() == ".npy":
                np.save(file, self.perturbed.numpy())
            else:
                classes = {"y": np.array(self.labels), "before": np.array(self.before), "after": np.array(self.after)}
                x, original = self.perturbed.numpy(), restored(self.found.original.cpu(), self.schema).numpy()
                np.savez_compressed(file, allow_pickle=False, x=x, original=original, **classes)
        return path
