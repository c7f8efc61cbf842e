"""Figures in one house style, each from plain numbers: `pictures.learning_curve(history)`. All return a matplotlib `Figure`."""

from neuropil.inspection.pictures.comparisons import learning_curves as learning_curves
from neuropil.inspection.pictures.comparisons import loss_curves as loss_curves
from neuropil.inspection.pictures.comparisons import softening as softening
from neuropil.inspection.pictures.comparisons import weight_spread as weight_spread
from neuropil.inspection.pictures.gates import gate_maps as gate_maps
from neuropil.inspection.pictures.heads import head_importance as head_importance
from neuropil.inspection.pictures.heads import loss_by_heads as loss_by_heads
from neuropil.inspection.pictures.predictions import confusion_matrix as confusion_matrix
from neuropil.inspection.pictures.predictions import image_grid as image_grid
from neuropil.inspection.pictures.predictions import predicted_against_actual as predicted_against_actual
from neuropil.inspection.pictures.texts import accuracy_by_length as accuracy_by_length
from neuropil.inspection.pictures.texts import class_by_word as class_by_word
from neuropil.inspection.pictures.theory import activation_curves as activation_curves
from neuropil.inspection.pictures.theory import approximation as approximation
from neuropil.inspection.pictures.theory import gradient_flow as gradient_flow
from neuropil.inspection.pictures.theory import gradient_through_time as gradient_through_time
from neuropil.inspection.pictures.tokens import token_weights as token_weights
from neuropil.inspection.pictures.training import cures as cures
from neuropil.inspection.pictures.training import learning_curve as learning_curve
from neuropil.inspection.pictures.training import race as race
from neuropil.inspection.pictures.weights import weight_grid as weight_grid
