"""From the whole to one multiplication: a forward pass as stages of numbers, each of which opens into its makers."""

from neuropil.inspection.products.tracers import open_number as open_number
from neuropil.inspection.products.tracers import places as places
from neuropil.inspection.products.tracers import trace as trace
