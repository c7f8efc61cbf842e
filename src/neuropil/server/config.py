"""Options of the server."""

from neuropil.config import Config, option
from neuropil.errors import InputError
from neuropil.http.access import LOOPBACK

TOKEN = "NEUROPIL_TOKEN"  # noqa: S105 (the name of an environment variable)

SECONDS_TO_JOIN = 3
"""That a thread has for what it is doing when the server ends."""


class ServerConfig(Config):
    host: str = option("127.0.0.1", "address to listen at; any other than this machine's own demands a token")
    port: int | None = option(None, "port; by default the first free one from 8000 on", low=0, high=65535)
    token: str | None = option(None, f"token that clients must send; better given as {TOKEN}, which `ps` does not show")
    without_token: bool = option(False, "answer other machines without a token")
    slots: int = option(16, "texts that are written at once", low=1, high=1024)
    queue: int = option(64, "requests that may wait; further ones are answered 429", low=0, high=100_000)
    max_prompt: int | None = option(None, "longest prompt in tokens; by default the model's context", low=1)
    max_tokens: int = option(512, "most new tokens of a text, also where a request does not say how many", low=1)
    max_body: int = option(2**20, "largest request in bytes", low=1024, high=2**30)
    timeout: float = option(120.0, "seconds that a request may take, waiting included", above=0, high=86_400)
    drain: float = option(30.0, "seconds that running requests have after SIGTERM or Ctrl-C", low=0, high=86_400)
    piece: int = option(64, "tokens of prompts that are read between two tokens of the other texts", low=1)
    log: bool = option(False, "write a line for each request to standard error")
    precision: str = option("float32", "precision of the weights of GPT-2 on a CPU: float32, bfloat16, int8 or int4")

    def validate(self) -> None:
        if self.token is not None:
            require_token(self.token, "token", "leave it out")

    def with_token(self, given: str | None) -> "ServerConfig":
        """This one, with the token that the environment gives where the words gave none; refused where other machines
        could ask without any."""
        if self.token is None and given is not None:
            require_token(given, f"the environment variable {TOKEN}", "unset it")
        config = self if self.token is not None else self.override(token=given)
        if config.token is None and config.host not in LOOPBACK and not config.without_token:
            raise InputError(
                "a server that other machines can reach must have a token",
                got=f"--host {config.host} without one",
                fix=f"set {TOKEN} or give --token; --without-token answers everyone",
            )
        return config


def require_token(token: str, name: str, fix: str) -> None:
    """`name` is what it was given as. The token itself is not shown."""
    if not token:
        raise InputError(f"{name} must hold a token", got="an empty one", fix=f"set one, or {fix}")
    if not token.isascii() or not token.isprintable():
        raise InputError(f"{name} must be ASCII letters, digits and signs", got="something else")
