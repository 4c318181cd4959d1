"""The options of one run of `vllm bench serve`, each with whether it can be done without."""

from __future__ import annotations

from probes.bench.orders import BenchOrder, Level
from probes.bench.place import Place
from probes.bench.server import Server

Flag = tuple[str, ...]


def tokenizer_of(place: Place, server: Server) -> str:
    """Path or name of the server's tokenizer: what it was told, else the model it was started with."""
    return place.tokenizer or server.card.root or place.model or server.card.id


def flags(order: BenchOrder, level: Level, place: Place, server: Server) -> bytes:
    """The file ``levels/NN`` of ``bench.sh``, which adds where the result is to be written.

    All with random prompts, which need no network and no file. What older versions lack and can be done without is
    left out there (and said): warm-up requests, the served name apart from the model.
    """
    tokenizer = tokenizer_of(place, server)
    need: list[Flag] = [
        ("--base-url", place.endpoint.url),
        ("--model", server.card.root or place.model or server.card.id),
        ("--tokenizer", tokenizer),
        ("--dataset-name", "random"),
        ("--random-input-len", str(level.input_len)),
        ("--random-output-len", str(level.output_len)),
        ("--num-prompts", str(level.prompts)),
        ("--max-concurrency", str(level.concurrency)),
        ("--save-result",),
    ]
    kept = {
        "preset": order.preset,
        "run": order.id,
        "dataset": "random",
        "input_len": str(level.input_len),
        "output_len": str(level.output_len),
        "repeat": str(level.repeat),
    }
    want: list[Flag] = [
        ("--served-model-name", server.card.id),
        ("--backend", "openai"),
        ("--endpoint", "/v1/completions"),
        ("--seed", str(level.seed)),
        ("--temperature", f"{level.temperature:g}"),
        ("--ignore-eos",),
        ("--percentile-metrics", "ttft,tpot,itl,e2el"),
        ("--metric-percentiles", "50,90,99"),
        ("--metadata", *(f"{key}={value}" for key, value in kept.items())),
        ("--ready-check-timeout-sec", "30"),
    ]
    if level.warmups:
        want.append(("--num-warmups", str(level.warmups)))
    if place.endpoint.tls:
        want.append(("--insecure",))  # it is its own host, by another name than the certificate's
    if place.tokenizer_mode:
        want.append(("--tokenizer-mode", place.tokenizer_mode))
    if place.trust_remote_code:
        want.append(("--trust-remote-code",))
    extra: list[Flag] = []
    for word in level.extra:
        if word.startswith("--") or not extra:
            extra.append((word,))
        else:
            extra[-1] = (*extra[-1], word)
    rows = [("need", *flag) for flag in (*need, *extra)] + [("want", *flag) for flag in want]
    return "".join("\t".join(row) + "\n" for row in rows).encode("utf-8", "surrogateescape")


def refused(order: BenchOrder, server: Server) -> str:
    """Why these lengths cannot be asked of this server; empty: they can."""
    most = server.card.max_model_len
    longest = max(level.input_len + level.output_len for level in order.levels)
    if most is not None and longest > most:
        return (
            f"The preset {order.preset} asks for {longest} tokens a request, and this server takes at most {most}"
            " (max_model_len)"
        )
    return ""
