"""Weights of other libraries, both ways: one file for each family, with a map of names."""

from neuropil.parts.checkpoint_families import CheckpointFamily


def checkpoint_family(name: str) -> CheckpointFamily:
    from neuropil.pretrained import bert, clip, gpt2, unet2d, vit

    families: dict[str, CheckpointFamily] = {
        "bert": bert.FAMILY,
        "clip": clip.FAMILY,
        "gpt2": gpt2.FAMILY,
        "unet2d": unet2d.FAMILY,
        "vit": vit.FAMILY,
    }
    return families[name]
