"""docs/api.md, written from the signatures, docstrings and comments of the source so that it cannot go stale.

    ./run python -m tests.house.api_reference docs/api.md

writes it anew; a test wants the page to be what this would write. The source is read and not imported, so that the page
is the same whether or not Spark is installed. Names that begin with an underscore, and `on_...`, which drivers call,
are left out, except for those that take a callback of the application.
"""

import ast
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
_SIGNATURE_MAX = 100  # characters; longer ones are cut into one argument a line

_HEAD = """\
# The Python interface

Written by `python -m tests.house.api_reference` from the docstrings. What is from `holdfast` itself is loaded when it
is first used; the rest is imported from the module that stands beside it. [Live networks](live.md),
[the language](language.md) and [matching on Spark](spark.md) show it at work.
"""


@dataclass(frozen=True)
class Section:
    title: str
    about: str
    names: tuple[str, ...]  # module:name


SECTIONS = (
    Section(
        "Conditions and matching",
        "From `holdfast` itself. An event is a map from names to strings, numbers, booleans and timestamps.",
        (
            "holdfast.language.parser:parse",
            "holdfast.language.subscription:Subscription",
            "holdfast.language.covering:covers",
            "holdfast.language.covering:overlaps",
            "holdfast.matching.matcher:Matcher",
        ),
    ),
    Section(
        "Clients",
        "`connect`, `connect_sync`, `Client`, `SyncClient`, `Delivery`, `Loss`, `Account` and `StateChange` are from "
        "`holdfast` itself; the other classes are what these return.",
        (
            "holdfast.carriers.connecting:connect",
            "holdfast.net.client:Client",
            "holdfast.net.attachment:Attachment",
            "holdfast.net.subscription:Subscription",
            "holdfast.net.subscription:Delivery",
            "holdfast.net.losses:Loss",
            "holdfast.net.accounting:Account",
            "holdfast.net.accounting:Missing",
            "holdfast.net.states:StateChange",
            "holdfast.net.states:StateChanges",
            "holdfast.carriers.connecting:connect_sync",
            "holdfast.net.sync:SyncClient",
            "holdfast.net.sync:SyncSubscription",
            "holdfast.net.sync:SyncStates",
            "holdfast.net.sync:SyncLosses",
        ),
    ),
    Section(
        "Gateways",
        "`connect_gateway` is from `holdfast` itself.",
        (
            "holdfast.gateway.client:connect_gateway",
            "holdfast.gateway.client:GatewayClient",
            "holdfast.gateway.client:LoggedEvent",
        ),
    ),
    Section(
        "Spark",
        "From `holdfast.spark`; needs the `spark` extra.",
        (
            "holdfast.pipeline.match.frames:match",
            "holdfast.pipeline.match.frames:match_counts",
            "holdfast.pipeline.session:session",
        ),
    ),
    Section(
        "Brokers in a program",
        "Usually a broker is a process, `holdfast broker`. In a test or a notebook it can be an object. `Broker` and "
        "`SyncBroker` are from `holdfast` itself; `BrokerNode` is what runs underneath.",
        (
            "holdfast.net.broker:Broker",
            "holdfast.net.sync_broker:SyncBroker",
            "holdfast.net.broker:EmbeddedBroker",
            "holdfast.testing.fixtures:holdfast_broker",
            "holdfast.net.address:parse_address",
            "holdfast.net.settings:NodeSettings",
            "holdfast.net.node:BrokerNode",
            "holdfast.net.watching:watch",
        ),
    ),
    Section(
        "Settings",
        "What `settings`, `recovery` and `order` of `connect` take beside plain words, and what `NodeSettings` takes.",
        (
            "holdfast.protocol.settings:ProtocolSettings",
            "holdfast.protocol.recovery.settings:RecoverySettings",
            "holdfast.protocol.order.settings:LatchSettings",
            "holdfast.protocol.hops.settings:HopSettings",
            "holdfast.protocol.hops.settings:NackSettings",
            "holdfast.protocol.hops.settings:HandoverSettings",
            "holdfast.protocol.hops.settings:WatchSettings",
            "holdfast.protocol.gossip.settings:GossipSettings",
            "holdfast.mqtt.settings:MqttSettings",
            "holdfast.net.history_settings:HistorySettings",
            "holdfast.store.log:Retention",
            "holdfast.trust.budget:BudgetSettings",
            "holdfast.protocol.replication.settings:ReplicationSettings",
        ),
    ),
    Section(
        "Networks and runs",
        "Reading network files and traces without the command line.",
        (
            "holdfast.network.load:load",
            "holdfast.books.runs:Run",
        ),
    ),
    Section(
        "Errors",
        "All are from `holdfast` itself, and all but the warning are a `HoldfastError`.",
        (
            "holdfast.model.errors:HoldfastError",
            "holdfast.model.errors:InputError",
            "holdfast.language.problems:ConditionError",
            "holdfast.model.errors:TransportError",
            "holdfast.model.errors:TimedOutError",
            "holdfast.model.errors:MisuseError",
            "holdfast.model.errors:MissingExtraError",
            "holdfast.model.errors:HoldfastWarning",
        ),
    ),
)

Function = ast.FunctionDef | ast.AsyncFunctionDef
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def reference() -> str:
    lines = [_HEAD]
    for section in SECTIONS:
        lines += [f"## {section.title}\n", f"{section.about}\n"]
        for name in section.names:
            lines += _entry(name)
    return "\n".join(lines).rstrip() + "\n"


def _entry(name: str) -> Iterator[str]:
    module, _, what = name.partition(":")
    path = ROOT / "src" / Path(*module.split(".")).with_suffix(".py")
    source = path.read_text(encoding="utf-8")
    tree = ast.parse(source)
    constants = {
        _text(node.targets[0]): _text(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
    }
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name == what:
            yield from _class(node, module, source, constants)
            return
        if isinstance(node, Function) and node.name == what:
            yield from _function(node, module, constants)
            return
    raise LookupError(f"there is no {what} in {module}; mend SECTIONS in tests/house/api_reference.py")


def _function(node: Function, module: str, constants: Mapping[str, str]) -> Iterator[str]:
    yield f"### {node.name}\n"
    yield f"```text\n{_signature(node, constants)}\n```\n"
    yield f"{_doc(node)}\n\n`{module}`\n"


def _class(node: ast.ClassDef, module: str, source: str, constants: Mapping[str, str]) -> Iterator[str]:
    yield f"### {node.name}\n"
    about = _doc(node)
    yield f"{about}{' ' if about else ''}(`{module}`)\n"
    rows = [*_fields(node, source), *_methods(node, constants)]
    if rows:
        yield "| | |\n|---|---|"
        yield from (f"| `{_cell(left)}` | {_cell(right)} |" for left, right in rows)
        yield ""


def _fields(node: ast.ClassDef, source: str) -> Iterator[tuple[str, str]]:
    """Annotated attributes with the comment behind them, or the string below."""
    lines = source.splitlines()
    for at, each in enumerate(node.body):
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name) and not each.target.id.startswith("_"):
            if found := _declared(each):
                yield f"{each.target.id}: {found[0]}", found[1]
                continue
            default = f" = {_text(each.value)}" if each.value is not None else ""
            text = f"{each.target.id}: {_text(each.annotation)}{default}"
            comment = re.search(r"  # (.*)$", lines[(each.end_lineno or each.lineno) - 1])
            below = node.body[at + 1] if at + 1 < len(node.body) else None
            if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
                yield text, str(below.value.value)
            else:
                yield text, comment[1] if comment else ""


def _declared(each: ast.AnnAssign) -> tuple[str, str] | None:
    """Type with default, and meaning with reason, of a field that is declared as a setting."""
    if isinstance(each.value, ast.Call) and _text(each.value.func) == "setting":
        default, meaning, reason = each.value.args[:3]
        shown = f"{_text(default)}()" if _text(default) in ("dict", "list") else _text(default)
        return f"{_text(each.annotation)} = {shown}", f"{ast.literal_eval(meaning)} ({ast.literal_eval(reason)})"
    hint = each.annotation
    if isinstance(hint, ast.Subscript) and _text(hint.value) == "Annotated" and isinstance(hint.slice, ast.Tuple):
        kind, extra = hint.slice.elts[:2]
        if isinstance(extra, ast.Call):
            return _text(kind), str(ast.literal_eval(extra.args[0]))
    return None


def _methods(node: ast.ClassDef, constants: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for each in node.body:
        if not isinstance(each, Function) or not _is_listed(each):
            continue
        marks = {ast.unparse(mark) for mark in each.decorator_list}
        if "property" in marks:
            yield f"{each.name}: {_text(each.returns)}", _doc(each)
        else:
            yield _signature(each, constants, one_line=True), _doc(each)


def _is_listed(method: Function) -> bool:
    if method.name.startswith("on_"):
        return any(each.arg == "callback" for each in method.args.args)
    return (method.name == "__init__" and ast.get_docstring(method) is not None) or not method.name.startswith("_")


def _signature(node: Function, constants: Mapping[str, str], one_line: bool = False) -> str:
    yields = node.returns is not None and "Iterator" in ast.unparse(node.returns)
    words = ("async for" if yields else "await", "") if one_line else ("async def", "def")
    word = words[0] if isinstance(node, ast.AsyncFunctionDef) else words[1]
    back = f" -> {_text(node.returns)}" if node.returns is not None else ""
    arguments = list(_arguments(node.args, constants))
    text = f"{word} {node.name}({', '.join(arguments)}){back}".strip()
    if one_line or len(text) <= _SIGNATURE_MAX:
        return text
    inside = "".join(f"    {each},\n" for each in arguments)
    return f"{word} {node.name}(\n{inside}){back}"


def _arguments(arguments: ast.arguments, constants: Mapping[str, str]) -> Iterator[str]:
    """Each argument as it is written; a default that is a number with a name of its own file as that number."""

    def written(argument: ast.arg, default: ast.expr | None) -> str:
        kind = f": {_text(argument.annotation)}" if argument.annotation is not None else ""
        value = "" if default is None else f" = {constants.get(_text(default), _text(default))}"
        return f"{argument.arg}{kind}{value}"

    first = len(arguments.args) - len(arguments.defaults)
    for at, each in enumerate(arguments.args):
        if at or each.arg not in ("self", "cls"):
            yield written(each, arguments.defaults[at - first] if at >= first else None)
    if arguments.vararg is not None:
        yield f"*{written(arguments.vararg, None)}"
    elif arguments.kwonlyargs:
        yield "*"
    for each, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        yield written(each, default)


def _text(expression: ast.expr | None) -> str:
    """As Python writes it; a forward reference without its quotes, and strings in double ones."""
    if isinstance(expression, ast.Constant) and isinstance(expression.value, str) and expression.value.isidentifier():
        return expression.value if expression.value[0].isupper() else f'"{expression.value}"'
    return "" if expression is None else ast.unparse(expression).replace("'", '"')


def _doc(node: Definition) -> str:
    return (ast.get_docstring(node) or "").strip()


def _cell(text: str) -> str:
    return re.sub(r"\s*\n\s*", " ", text).replace("|", "\\|")


if __name__ == "__main__":
    for page in map(Path, sys.argv[1:]):
        page.write_text(reference(), encoding="utf-8")
