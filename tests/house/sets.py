"""Where a source file iterates over a set: the order differs from process to process.

The check knows a set by its spelling: a literal, a call, an annotation or an assignment in the same file.
A set that comes from another file without an annotation is not seen; the test that runs one seed under two
values of PYTHONHASHSEED is there for those.
"""

import ast
import re
from collections import ChainMap

_SET, _SETS_BY_KEY = "set", "sets by key"
_SET_TYPE = r"(\w+\.)*(set|frozenset|Set|FrozenSet|AbstractSet|MutableSet)\b"
_SETS_BY_KEY_TYPE = rf"(\w+\.)*(dict|defaultdict|Mapping|MutableMapping)\[.*,\s*{_SET_TYPE}"

_MAKE_SETS = {"copy", "difference", "intersection", "symmetric_difference", "union"}
_KEEP_ORDER = {"enumerate", "extend", "filter", "fromkeys", "iter", "join", "list", "map", "tuple", "zip"}
_IGNORE_ORDER = {"all", "any", "frozenset", "len", "max", "min", "set", "sorted", "sum"}
_SHOW_TIES = {"max", "min", "sorted"}  # with a key: what compares equal comes out in the set's order


def set_iterations(tree: ast.Module) -> list[tuple[int, str]]:
    """Line and text of each set that is iterated over in a way that shows its order."""
    reader = _Reader(tree)
    reader.visit(tree)
    return reader.found


class _Reader(ast.NodeVisitor):
    def __init__(self, tree: ast.Module) -> None:
        self.found: list[tuple[int, str]] = []
        # Names known to hold a set, or sets by key; attributes stand as `.name`, functions as `name()`.
        self._kinds: ChainMap[str, str] = ChainMap()
        self._order_free: list[ast.expr] = []
        for node in ast.walk(tree):
            match node:
                case ast.FunctionDef(name=name, returns=returned):
                    self._kinds[f"{name}()"] = _annotated(returned)
                case ast.AnnAssign(target=ast.Attribute(attr=name), annotation=annotation):
                    self._kinds[f".{name}"] = _annotated(annotation)
                case ast.Assign(targets=[ast.Attribute(attr=name)], value=value) if self._kind(value):
                    self._kinds[f".{name}"] = self._kind(value)
                case ast.ClassDef(body=body):
                    for each in body:
                        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
                            self._kinds[f".{each.target.id}"] = _annotated(each.annotation)

    def _kind(self, value: ast.expr) -> str:
        match value:
            case ast.Set() | ast.SetComp() | ast.Call(func=ast.Name(id="set" | "frozenset")):
                return _SET
            case ast.Name(id=name):
                return self._kinds.get(name, "")
            case ast.Attribute(attr=name):
                return self._kinds.get(f".{name}", "")
            case ast.Subscript(value=inner) | ast.Call(func=ast.Attribute(value=inner, attr="get" | "setdefault")):
                return _SET if self._kind(inner) == _SETS_BY_KEY else ""
            case ast.BinOp(op=ast.BitOr() | ast.BitAnd() | ast.BitXor() | ast.Sub(), left=left, right=right):
                return _SET if _SET in (self._kind(left), self._kind(right)) or _is_key_view(left) else ""
            case ast.IfExp(body=one, orelse=other) | ast.BoolOp(values=[one, other]):
                return self._kind(one) or self._kind(other)
            case ast.Call(func=ast.Name(id="defaultdict"), args=[ast.Name(id="set")]):
                return _SETS_BY_KEY
            case ast.Call(func=ast.Attribute(value=inner, attr=name)) if name in _MAKE_SETS:
                return self._kind(inner)
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
                return self._kinds.get(f"{name}()", "")
        return ""

    def _iterated(self, value: ast.expr) -> None:
        if self._kind(value) == _SET:
            self.found.append((value.lineno, ast.unparse(value)))

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._kinds = self._kinds.new_child()
        for each in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
            self._kinds[each.arg] = _annotated(each.annotation)
        self.generic_visit(node)
        self._kinds = self._kinds.parents

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if isinstance(node.target, ast.Name):
            self._kinds[node.target.id] = _annotated(node.annotation)
        self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            if isinstance(target, ast.Name):
                self._kinds[target.id] = self._kind(node.value)
        self.generic_visit(node)

    def visit_For(self, node: ast.For) -> None:
        self._iterated(node.iter)
        match node:
            case ast.For(
                target=ast.Name(id=name) | ast.Tuple(elts=[_, ast.Name(id=name)]),
                iter=ast.Call(func=ast.Attribute(value=inner, attr="values" | "items")),
            ):
                self._kinds[name] = _SET if self._kind(inner) == _SETS_BY_KEY else ""
        self.generic_visit(node)

    def visit_ListComp(self, node: ast.ListComp | ast.DictComp | ast.GeneratorExp) -> None:
        if node not in self._order_free:
            for each in node.generators:
                self._iterated(each.iter)
        self.generic_visit(node)

    visit_DictComp = visit_ListComp
    visit_GeneratorExp = visit_ListComp

    def visit_Starred(self, node: ast.Starred) -> None:
        if node not in self._order_free:
            self._iterated(node.value)
        self.generic_visit(node)

    def visit_Set(self, node: ast.Set) -> None:
        self._order_free += node.elts
        self.generic_visit(node)

    def visit_YieldFrom(self, node: ast.YieldFrom) -> None:
        self._iterated(node.value)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        name = getattr(node.func, "id", None) or getattr(node.func, "attr", "")
        has_key = any(each.arg == "key" for each in node.keywords)
        if name in _KEEP_ORDER or (name in _SHOW_TIES and has_key):
            for each in node.args:
                self._iterated(each)
        elif name in _IGNORE_ORDER:
            self._order_free += node.args
        elif name == "pop" and not node.args and isinstance(node.func, ast.Attribute):
            self._iterated(node.func.value)
        self.generic_visit(node)


def _annotated(annotation: ast.expr | None) -> str:
    text = ast.unparse(annotation).strip("'\"") if annotation else ""
    if re.match(_SETS_BY_KEY_TYPE, text):
        return _SETS_BY_KEY
    return _SET if any(re.match(_SET_TYPE, part.strip()) for part in text.split("|")) else ""


def _is_key_view(value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and getattr(value.func, "attr", "") in ("keys", "items")
