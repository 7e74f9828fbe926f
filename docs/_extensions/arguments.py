"""Every argument of every public name, with its type and what it means.

Docstrings say what their signature does not; what a word means everywhere (`rng`, `arms`, `t`)
stands once, in docs/arguments.toml. The reference shows both, and `undocumented` says what neither
tells: tests/test_reference.py wants that to be nothing.
"""

import ast
import importlib
import inspect
import re
import tomllib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parents[1]

PACKAGES = (
    "superarm",
    "superarm.beliefs",
    "superarm.beliefs.ensemble",
    "superarm.kernels",
    "superarm.policies",
    "superarm.oracles",
    "superarm.theory",
    "superarm.fitting",
    "superarm.adapting",
    "superarm.tables",
    "superarm.problems",
    "superarm.problems.guarantee",
    "superarm.evaluation",
    "superarm.rivals",
    "superarm.saving",
    "superarm.roads.vehicle",
    "superarm.roads.network",
    "superarm.roads.physics",
    "superarm.roads.matching",
    "superarm.roads.imports",
    "superarm.roads.models",
    "superarm.roads.routing.vehicle_access",
    "superarm.roads.charging",
    "superarm.roads.bandit",
    "superarm.roads.town",
    "superarm.roads.maps",
    "superarm.simulation",
    "superarm.experiments",
    "superarm.client",
    "superarm.protocols",
)
"""What is public: every name that these list in ``__all__``."""

_SECTION = re.compile(r"^(Args|Attributes|Parameters):\s*$")
_LETTER = re.compile(r"^(\w)\.$")  # would be the beginning of a list
_ESCAPED = r"\1\\."
_ENTRY = re.compile(r"^(\*{0,2}\w+(?:, \*{0,2}\w+)*):(?:\s+(.*))?$")


class Callee(NamedTuple):
    """A public class, function or method.

    Attributes:
        name: with its package.
        thing: itself.
        owner: the class whose method it is.
    """

    name: str
    thing: Any
    owner: type | None = None


@cache
def meanings() -> dict[str, str]:
    """Return what words mean as arguments everywhere."""
    with (HERE / "arguments.toml").open("rb") as file:
        found: dict[str, str] = tomllib.load(file)["arguments"]
    return found


def public() -> Iterator[Callee]:
    """Yield all classes, functions and methods that users see."""
    seen: set[int] = set()
    for package in PACKAGES:
        module = importlib.import_module(package)
        for name in module.__all__:
            thing = getattr(module, name)
            if id(thing) in seen or not callable(thing) or not hasattr(thing, "__qualname__"):
                continue
            seen.add(id(thing))
            yield Callee(f"{package}.{name}", thing)
            if not inspect.isclass(thing):
                continue
            for key in vars(thing):
                if not key.startswith("_") and (
                    inspect.isfunction(getattr(thing, key)) or inspect.ismethod(getattr(thing, key))
                ):
                    yield Callee(f"{package}.{name}.{key}", getattr(thing, key), thing)


def parameters(thing: Any) -> list[inspect.Parameter]:  # noqa: ANN401 - anything that is public
    """Return what one may give, but for self."""
    if inspect.isclass(thing) and (issubclass(thing, Exception) or _is_protocol(thing)):
        return []
    try:
        given = inspect.signature(thing).parameters.values()
    except (ValueError, TypeError):
        return []
    return [
        each
        for each in given
        if each.name != "cls"
        and each.name.strip("_") not in {"self", "args", "kwargs"}
        and not each.name.startswith("_")
    ]


def _is_protocol(thing: type) -> bool:
    return bool(getattr(thing, "_is_protocol", False))


def entries(doc: str | None) -> dict[str, list[str]]:
    """Return what a docstring says of each argument."""
    found: dict[str, list[str]] = {}
    inside, indent, current = False, 0, []
    for line in inspect.cleandoc(doc or "").splitlines():
        if _SECTION.match(line):
            inside, indent = True, 0
            continue
        if inside and line.strip() and not line.startswith(" "):
            inside = False
        if not inside or not line.strip():
            continue
        indent = indent or len(line) - len(line.lstrip())
        entry = _ENTRY.match(line.strip()) if len(line) - len(line.lstrip()) == indent else None
        if entry:
            current = [entry.group(2)] if entry.group(2) else []
            for name in entry.group(1).split(","):
                found[name.strip().lstrip("*")] = current
        else:
            current.append(line.strip())
    return found


def documents(thing: Any, owner: type | None) -> list[str]:  # noqa: ANN401 - anything public
    """Return the docstrings that speak of its arguments, the nearest first."""
    if inspect.isclass(thing):
        found = [base.__doc__ for base in thing.__mro__ if base is not object]
        found += [
            vars(base)["__init__"].__doc__ for base in thing.__mro__ if "__init__" in vars(base)
        ]
        return [doc for doc in found if doc]
    name = getattr(thing, "__name__", "")
    inherited = [vars(base).get(name) for base in owner.__mro__] if owner else []
    found = [getattr(thing, "__doc__", None)]
    found += [getattr(each, "__doc__", None) for each in inherited]
    return [doc for doc in found if doc]


def told(thing: Any, owner: type | None = None) -> dict[str, str]:  # noqa: ANN401 - anything public
    """Return what is said of every argument; nothing of those nobody speaks of."""
    known: dict[str, str] = {}
    for doc in documents(thing, owner):
        for name, lines in entries(doc).items():
            known.setdefault(name, " ".join(lines))
    given = [each.name for each in parameters(thing)]
    whose = f"{owner.__name__}.{thing.__name__}" if owner else getattr(thing, "__name__", "")
    return {name: known.get(name) or _meaning(whose, name) for name in given}


def _meaning(whose: str, argument: str) -> str:
    """Return what an argument of something means, by the nearest entry."""
    words = meanings()
    return words.get(f"{whose}.{argument}") or words.get(argument, "")


def undocumented() -> list[str]:
    """Return the arguments that neither a docstring nor the list of meanings explains."""
    return [
        f"{callee.name}({name})"
        for callee in public()
        for name, text in told(callee.thing, callee.owner).items()
        if not text
    ]


@cache
def _annotations(path: str) -> dict[tuple[str, str], str]:
    """Return annotations of a file as they are written, by function and argument."""
    found: dict[tuple[str, str], str] = {}

    def visit(node: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ClassDef):
                for part in child.body:
                    if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
                        key = (f"{prefix}{child.name}", part.target.id)
                        found[key] = ast.unparse(part.annotation)
                visit(child, f"{prefix}{child.name}.")
            elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                every = [*child.args.posonlyargs, *child.args.args, *child.args.kwonlyargs]
                every += [each for each in (child.args.vararg, child.args.kwarg) if each]
                for each in every:
                    if each.annotation is not None:
                        name = f"{prefix}{child.name}"
                        found[name, each.arg] = ast.unparse(each.annotation)
                if child.returns is not None:
                    found[f"{prefix}{child.name}", "return"] = ast.unparse(child.returns)

    visit(ast.parse(Path(path).read_text(encoding="utf-8")), "")
    return found


def type_of(thing: Any, argument: str) -> str:  # noqa: ANN401 - anything that is public
    """Return the annotation of an argument as it is written."""
    candidates: list[Any] = [thing]
    if inspect.isclass(thing):
        candidates = [*thing.__mro__]
        candidates += [vars(base)["__init__"] for base in thing.__mro__ if "__init__" in vars(base)]
    for each in candidates:
        try:
            path = inspect.getsourcefile(inspect.unwrap(getattr(each, "__func__", each)))
        except TypeError:
            continue
        if path and path.endswith(".py"):
            known = _annotations(path).get((each.__qualname__, argument))
            if known:
                return known.replace("'", "").replace('"', "")
    return ""


def described(  # noqa: PLR0913, PLR0917 - Sphinx's event has these
    app: Any,  # noqa: ANN401 - Sphinx's application
    what: str,
    name: str,
    thing: Any,  # noqa: ANN401 - anything that is documented
    options: Any,  # noqa: ANN401 - Sphinx's
    lines: list[str],
) -> None:
    """Put types and meanings of all arguments into a docstring."""
    del app, options
    if what in {"property", "attribute", "data"}:
        lines.insert(0, "")  # else the words before a colon would be taken for a type
    if what not in {"class", "function", "method"}:
        return
    owner = _owner(name, thing) if what == "method" else None
    said = {key: text for key, text in told(thing, owner).items() if text}
    kept, heading = _without_arguments("\n".join(lines), what)
    if said:
        kept += ["", f"{heading}:"]
        for key, text in said.items():
            kind = type_of(thing, key)
            shown = f"{key} ({kind})" if kind else key
            kept.append(f"    {shown}: {_LETTER.sub(_ESCAPED, text)}")
        kept.append("")
    lines[:] = kept


def _owner(name: str, thing: Any) -> type | None:  # noqa: ANN401 - a method
    module = inspect.getmodule(thing)
    found: Any = module
    for part in getattr(thing, "__qualname__", "").split(".")[:-1]:
        found = getattr(found, part, None)
    del name
    return found if inspect.isclass(found) else None


def _without_arguments(doc: str, what: str) -> tuple[list[str], str]:
    """Return the lines without what is said of arguments, and under which heading that goes."""
    kept, inside = [], False
    for line in doc.splitlines():
        section = _SECTION.match(line)
        if section and (section.group(1) != "Attributes" or what == "class"):
            inside = True
            continue
        if inside and line.strip() and not line.startswith(" "):
            inside = False
        if not inside:
            kept.append(line)
    return kept, "Args"


def returning(  # noqa: PLR0913, PLR0917 - Sphinx's event has these
    app: Any,  # noqa: ANN401 - Sphinx's application
    what: str,
    name: str,
    thing: Any,  # noqa: ANN401 - anything that is documented
    options: Any,  # noqa: ANN401 - Sphinx's
    signature: str | None,
    result: str | None,
) -> tuple[str | None, str | None]:
    """Add what a function returns to its signature, as it is written."""
    del app, name, options
    if what in {"function", "method"}:
        return signature, type_of(thing, "return") or result
    return signature, result


def found_by_name(
    app: Any,  # noqa: ANN401 - Sphinx's application
    env: Any,  # noqa: ANN401 - Sphinx's
    node: Any,  # noqa: ANN401 - docutils'
    content: Any,  # noqa: ANN401 - docutils'
) -> Any:  # noqa: ANN401 - docutils'
    """Lead a name in backticks to the public object of that name, if there is one."""
    if node.get("refdomain") != "py" or node.get("reftype") not in {"obj", "class"}:
        return None
    wanted = str(node.get("reftarget", "")).strip("~.")
    domain = env.get_domain("py")
    known = [key for key in domain.objects if key == wanted or key.endswith(f".{wanted}")]
    if not known:
        return None
    entry = domain.objects[min(known, key=lambda key: (key.count("."), len(key), key))]
    from sphinx.util.nodes import make_refnode  # noqa: PLC0415 - tests need no Sphinx

    here = node.get("refdoc")
    return make_refnode(app.builder, here, entry.docname, entry.node_id, content, wanted)


def setup(app: Any) -> dict[str, bool]:  # noqa: ANN401 - Sphinx's application
    """Tell Sphinx."""
    before: Callable[..., None] = described
    app.connect("autodoc-process-docstring", before, priority=100)  # napoleon has 500
    app.connect("autodoc-process-signature", returning)
    app.connect("missing-reference", found_by_name)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
