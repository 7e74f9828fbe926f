"""Pages of the reference that are read off the programs: commands, questions over HTTP, tables."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import numpy as np
from typer.main import get_command

from superarm.cli.app import NOUNS, make_app
from superarm.roads.network import generate_city

HERE = Path(__file__).resolve().parents[1]

MEASURED = {
    "rounds": "a round of exact inference beside the paper's sparse one",
    "scaling": "distinct arms, arms and memory",
    "ensemble": "totals of trips, 20,000 to 1,000,000 roads",
    "country": "the service on 100,000 and 1,000,000 edges, with a million trips",
    "device": "beliefs on a GPU",
    "peers": "other libraries on a comparable job",
    "methods": "nine methods on one route of Luxembourg",
    "theory": "bounds and information gain",
    "fitting": "fitting a prior beside scikit-learn and GPyTorch",
    "clicks": "beliefs about counts",
    "shop": "sixty days of a shop",
    "navigation": "shortest paths and rounds on road networks",
    "matching": "GPS traces to routes",
    "valhalla": "map matching beside Valhalla",
    "simulation": "SUMO beside our physics",
    "exploring": "what limits on exploring cost",
    "planning": "plans with charging stops, reach, matrices",
    "charges": "what trips cost the learner, and what they are charged",
    "durations": "minutes, moved by one device whose durations are wrong",
    "readers": "slow readers of large answers",
    "tenants": "what another key waits beside twenty that ask for all they may",
    "hierarchies": "contraction hierarchies beside plain search",
    "service": "the service under load",
    "service-compare": "the same, two versions side by side",
    "service-soak": "half of that load for an hour",
    "commits": "two versions of the package",
}
"""Tables of benchmarks/results, in the order in which they are listed."""


def commands() -> Iterator[str]:
    """Yield the lines of the page about the command line."""
    yield "# Command line\n"
    yield "`superarm <noun> <verb>`, read off the program. Results go to standard output or to"
    yield "files, progress to standard error. Exit 0: done, 1: failed, 2: misuse. Nouns that need"
    yield "an extra say which.\n"
    for noun, text in NOUNS.items():
        group: Any = get_command(make_app(noun))
        part = group.commands[noun]
        yield f"## superarm {noun}\n\n{text}\n"
        yield from _verbs(part, f"superarm {noun}")


def _verbs(part: Any, path: str) -> Iterator[str]:  # noqa: ANN401 - click's
    if not hasattr(part, "commands") or any(each.name != "help" for each in part.params):
        yield from _options(part, path)
    for name, verb in getattr(part, "commands", {}).items():
        if verb.hidden:
            continue
        if hasattr(verb, "commands"):
            yield from _verbs(verb, f"{path} {name}")
            continue
        yield f"### {path} {name}\n"
        yield from _options(verb, f"{path} {name}")


def _options(verb: Any, path: str) -> Iterator[str]:  # noqa: ANN401 - click's
    said = " ".join((verb.help or "").split("\n\n")[0].split())
    yield f"{said}\n"
    given = [each for each in verb.params if each.name != "help"]
    shown = [each for each in given if not getattr(each, "hidden", False)]
    named = " ".join(_name(each) for each in shown if each.param_type_name == "argument")
    yield f"    {path} {named}".rstrip() + (" [OPTIONS]\n" if shown else "\n")
    if not shown:
        return
    yield "| option | default | meaning |\n|---|---|---|"
    for each in shown:
        is_option = each.param_type_name == "option"
        opts = [*each.opts, *each.secondary_opts]
        name = ", ".join(f"`{opt}`" for opt in opts) if is_option else f"`{_name(each)}`"
        words = " ".join((getattr(each, "help", None) or "").split()).replace("|", "\\|")
        if isinstance(each.envvar, str):
            words += f" Or the environment variable `{each.envvar}`."
        yield f"| {name} | {_usual(each)} | {words} |"
    yield ""


def _usual(each: Any) -> str:  # noqa: ANN401 - click's
    """Return what an option is if it is not given."""
    usual = getattr(each.default, "value", each.default)
    if each.required:
        return "(required)"
    if usual is None or usual is False or usual == () or callable(usual):
        return ""
    if usual is True and each.secondary_opts:
        return f"`{each.opts[0]}`"
    return f"`{usual}`"


def _name(argument: Any) -> str:  # noqa: ANN401 - click's
    name = str(argument.name).upper()
    return name if argument.required else f"[{name}]"


def questions() -> Iterator[str]:
    """Yield the lines of the page about the service's questions."""
    from superarm.service.http.app import make_app as service  # noqa: PLC0415 - an extra

    settings = MagicMock(demo=False, tiles=None, stations=None, keep_traces=None)
    city = generate_city(0, 500).largest_component()
    nowhere = np.empty(0, dtype=np.intp)
    app = service(
        MagicMock(
            settings=settings, network=city, stations=SimpleNamespace(edges=nowhere, stations=())
        )
    )
    schema = app.openapi()
    yield "# HTTP\n"
    yield "Every question the service answers, read off its description: `GET /v1/openapi.json` has"
    yield "all fields, with their units. `superarm.client.Client` asks the same from Python. How to"
    yield "start it, and what answers mean: [the service](../how-to/service.md).\n"
    groups: dict[str, list[tuple[str, str, dict[str, Any]]]] = {}
    for path, operations in schema["paths"].items():
        for method, operation in operations.items():
            group = (operation.get("tags") or ["questions"])[0]
            groups.setdefault(group, []).append((method.upper(), path, operation))
    for group, entries in groups.items():
        yield f"## {group.capitalize()}\n"
        yield "| | what it does | may refuse with |\n|---|---|---|"
        for method, path, operation in entries:
            words = " ".join((operation.get("description") or operation["summary"]).split())
            codes = ", ".join(code for code in operation["responses"] if not code.startswith("2"))
            yield f"| `{method} {path}` | {words.replace('|', chr(92) + '|')} | {codes} |"
        yield ""


def measured() -> Iterator[str]:
    """Yield the lines of the page about measured tables."""
    known = {path.stem for path in (HERE.parent / "benchmarks" / "results").glob("*.md")}
    missing, extra = known - MEASURED.keys(), MEASURED.keys() - known
    if missing or extra:
        msg = f"docs/_extensions/generated.py lists other tables than there are: {missing | extra}"
        raise ValueError(msg)
    yield "# Measured\n"
    yield "Tables as the commands that are named in them wrote them; ratios within a table are of"
    yield "one run. `make bench` makes most of them anew, `make bench-service` and `make soak`"
    yield "those of the service; some are made by commands that they name.\n"
    yield "| table | what is measured |\n|---|---|"
    for name, words in MEASURED.items():
        yield f"| [{name}](/measured/{name}.md) | {words} |"
    yield "\n```{toctree}\n:hidden:\n"
    yield from (f"/measured/{name}" for name in MEASURED)
    yield "```"


def written(_: Any) -> None:  # noqa: ANN401 - Sphinx's application
    """Write the pages, if they have changed."""
    for name, lines in (("commands", commands), ("http", questions), ("measured", measured)):
        path, text = HERE / "reference" / f"{name}.md", "\n".join(lines()) + "\n"
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def setup(app: Any) -> dict[str, bool]:  # noqa: ANN401 - Sphinx's application
    """Tell Sphinx."""
    app.connect("builder-inited", written, priority=110)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
