"""The documentation that comes with Python: what `help()` shows on the topics of the language.

Many of its paragraphs stand under several topics; each is kept once, for otherwise a third of the test part would have
been read in training.
"""

import re

BETWEEN_TOPICS = "\n\n\n"


def python_documentation() -> tuple[str, str]:
    """The text, and what was left out of it."""
    from pydoc_data.topics import topics

    seen: set[str] = set()
    kept = [_new_paragraphs(topic, seen) for _, topic in sorted(topics.items())]
    text = BETWEEN_TOPICS.join(topic for topic in kept if topic)
    whole = sum(map(len, topics.values()))
    left_out = f"{whole - sum(map(len, kept)):,} of {whole:,} characters"
    return text, f"{left_out} stand in paragraphs that occur twice, and are left out."


def _new_paragraphs(topic: str, seen: set[str]) -> str:
    """Those that have not been seen, however they are indented."""
    kept: list[str] = []
    for paragraph in re.split(r"\n\s*\n", topic):
        words = " ".join(paragraph.split())
        if words and words not in seen:
            seen.add(words)
            kept.append(paragraph.strip("\n"))
    return "\n\n".join(kept)
