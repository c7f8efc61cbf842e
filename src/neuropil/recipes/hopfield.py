"""A Hopfield network that stores pictures or rows and recalls them from noise or from a part: of the embedded digits,
or the user's own."""

import dataclasses
import math

from neuropil.config import Config
from neuropil.data.examples.files import ImageDataConfig
from neuropil.data.examples.unlabelled import prepare_unlabelled
from neuropil.models.hopfield.network import HopfieldNetwork, HopfieldNetworkConfig
from neuropil.randomness import initialised
from neuropil.tasks.recall.experiment import RecallConfig, RecallExperiment
from neuropil.tasks.recall.predictor import PatternMemory
from neuropil.tasks.recipe import Recipe


class HopfieldOptions(Config):
    data: ImageDataConfig = ImageDataConfig()
    # Pictures are alike, and Hebb's rule is for patterns that are not.
    model: HopfieldNetworkConfig = HopfieldNetworkConfig(rule="pseudo_inverse")
    recall: RecallConfig = RecallConfig()


def build(options: HopfieldOptions, seed: int) -> RecallExperiment:
    splits = prepare_unlabelled(options.data, seed)
    units = math.prod(splits.train.schema.shape)
    config = dataclasses.replace(options.model, units=units)
    network = initialised(lambda: HopfieldNetwork(config), seed)
    return RecallExperiment(network, splits, options.recall, seed=seed, name="hopfield")


RECIPE = Recipe(HopfieldOptions(), build, HopfieldNetwork, PatternMemory)
