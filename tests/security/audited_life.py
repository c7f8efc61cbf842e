"""The life of models in one process that is watched: trained, resumed, loaded, saved, opened, exported, served. It
prints who unpickled and which files were run on the way, as one JSON object.

python audited_life.py FOLDER [onnx]       the last to export to ONNX too, which takes longer
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

LOADS, RUN = set[str](), set[str]()


def heard(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "pickle.find_class":
        LOADS.add(caller())
    elif event == "exec":
        RUN.add(arguments[0].co_filename)


def caller() -> str:
    """The file and function that asked for a pickle to be read: the first below those of the module pickle itself."""
    frame = sys._getframe(2)
    while frame is not None and frame.f_globals.get("__name__", "").split(".")[0] in ("pickle", "_pickle"):
        frame = frame.f_back
    return "nobody" if frame is None else f"{frame.f_globals.get('__name__')}.{frame.f_code.co_name}"


def live(folder: Path) -> list[str]:
    """Each step that was taken."""
    import neuropil
    from neuropil.data.tokenizers.learned import learn_merges
    from neuropil.models.gpt2 import GPT2, GPT2Config
    from neuropil.runs.start import resume, train

    quiet: dict[str, Any] = {"show_progress": False, "report": False}
    run = train("mlp", out=folder / "mlp", epochs=1, hidden_sizes=(4,), **quiet)
    resume(run.folder, show_progress=False)
    loaded = neuropil.load(run.save(folder / "sent.zip"))
    loaded.evaluate()
    if "onnx" in sys.argv:
        loaded.export("onnx", folder / "mlp.onnx")
    table = folder / "table.csv"
    table.write_text("a,b,kind\n" + "".join(f"{n},{n % 3},{'xy'[n % 2]}\n" for n in range(40)))
    train("mlp", data=table, target="kind", out=folder / "rows", epochs=1, hidden_sizes=(4,), **quiet).predict(table)
    words = folder / "words.txt"
    words.write_text(
        "".join(f"the quick brown fox {n} jumps over the lazy dog {n % 7} and the cat\n" for n in range(600))
    )
    vectors = train("word2vec", data=words, out=folder / "word2vec", width=4, epochs=1, min_count=1, threads=1, **quiet)
    vectors.save_vectors(folder / "vectors.bin")
    neuropil.open(folder / "vectors.bin").neighbours("fox")
    published = folder / "gpt2"
    tokenizer = learn_merges([words.read_text()], 270)
    sizes: dict[str, Any] = {"width": 8, "heads": 2, "layers": 1, "feed_forward": 8, "context": 24}
    GPT2(GPT2Config(**sizes, vocabulary_size=len(tokenizer))).save_pretrained(published)
    tokenizer.save(published)
    list(neuropil.open(published).generate("the quick", length=3, temperature=0))
    return [
        "train",
        "resume",
        "save",
        "load",
        "evaluate",
        "open",
        "generate",
        f"serve {asyncio.run(served(published))}",
    ]


async def served(folder: Path) -> int:
    import httpx

    from neuropil.http.access import Access
    from neuropil.server.app import create_app
    from neuropil.server.config import ServerConfig
    from neuropil.server.guard import Draining
    from neuropil.server.models import open_models
    from neuropil.server.prometheus import Figures

    config, figures, draining = ServerConfig(slots=1), Figures(), Draining()
    models = open_models([str(folder)], config, figures)
    app = create_app(models, Access("127.0.0.1"), config, figures, draining)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client:
        answer = await client.post("/v1/completions", json={"prompt": "the", "max_tokens": 2})
    models.close()
    return answer.status_code


if __name__ == "__main__":
    sys.addaudithook(heard)
    steps = live(Path(sys.argv[1]))
    json.dump({"steps": steps, "unpickled": sorted(LOADS), "run": sorted(RUN)}, sys.stdout)
