"""Sections on generated examples, from plain data."""

import torch

from neuropil.data.examples.dataset import Schema
from neuropil.inspection.report.page import Gallery, Table
from neuropil.tasks.generation.report import SHOWN, samples_section, scoring_section

TEN = Schema(kind="image", shape=(1, 2, 2), classes=tuple("0123456789"))


def test_where_classes_were_asked_for_samples_of_all_are_shown():
    labels = torch.arange(359) * 10 // 359
    section = samples_section(torch.zeros(359, 1, 2, 2, dtype=torch.uint8), TEN, labels)
    (gallery,) = (block for block in section.blocks if isinstance(block, Gallery))
    assert len(gallery.items) == SHOWN
    captions = [item.caption for item in gallery.items]
    assert captions == sorted(captions)
    assert {*captions} == {*TEN.classes}


def test_scores_that_are_no_results_of_the_run_are_in_a_table_of_their_own():
    scores = {"samples": {"frechet_distance": 2.5, "class_accuracy": 0.5}, "real": {"frechet_distance": 0.5}}
    (table,) = (block for block in scoring_section("a CNN", 10, scores).blocks if isinstance(block, Table))
    assert table == Table(
        ["", "Fréchet distance", "class accuracy"], [["samples", "2.5", "50.00 %"], ["real", "0.5", ""]]
    )
    assert not any(isinstance(block, Table) for block in scoring_section("a CNN", 10).blocks)
