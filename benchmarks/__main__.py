"""`make bench`: every benchmark, one after the other."""

from benchmarks import (
    adversarial,
    decoding,
    diffusion,
    gpt2_step,
    hodgkin_huxley,
    hopfield,
    import_time,
    lab_viewers,
    loop_overhead,
    mlp_beside_sklearn,
    populations,
    predictive_coding,
    rbm,
    recording_cost,
    recurrence_speed,
    sentence_embeddings,
    small_tables,
    spiking_classifier,
    spiking_networks,
    transformations,
    transformer_step,
    word2vec,
)
from neuropil.training.precision import prepare_bfloat16

prepare_bfloat16()  # before the first of them computes
for benchmark in (
    import_time,
    lab_viewers,
    loop_overhead,
    mlp_beside_sklearn,
    small_tables,
    transformer_step,
    recording_cost,
    recurrence_speed,
    decoding,
    gpt2_step,
    diffusion,
    sentence_embeddings,
    hodgkin_huxley,
    spiking_networks,
    populations,
    transformations,
    predictive_coding,
    rbm,
    hopfield,
    spiking_classifier,
    adversarial,
    word2vec,
):
    print(f"\n{(benchmark.__doc__ or '').strip()}")
    benchmark.main()
