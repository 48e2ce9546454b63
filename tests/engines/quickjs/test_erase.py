"""What erasure promises: the same program, on the same lines and columns, or a problem that says where and why."""

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from quickjs_rs import JSError, Runtime, SourceTransform

from cloister.engines.quickjs.erase import Erased, erase, guest_position, original_position

RUNTIME = Runtime()


class Guest:
    """A real QuickJS context that runs erased cells one after the other, as a session does."""

    def __init__(self) -> None:
        self.context: Any = RUNTIME.new_context()

    def run(self, source: str) -> Any:
        erased = erase(source)
        assert erased.problems == ()
        return self.context.eval(erased.code, transform_flags=SourceTransform.NONE)


def run(*cells: str) -> Any:
    guest = Guest()
    value = None
    for cell in cells:
        value = guest.run(cell)
    return value


def only_problem(source: str) -> tuple[str, str, tuple[int, int, int, int]]:
    erased = erase(source)
    assert erased.code == ""
    (problem,) = erased.problems
    return problem.code, problem.message, (problem.line, problem.column, problem.end_line, problem.end_column)


VALUES: list[tuple[str, Any]] = [
    ("1 + 1", 2),
    ("const a: number = 1; let b: string = 'x'; a + b", "1x"),
    ("(x => x)(3 as unknown as number)!", 3),
    ("const o = { a: 1 } as const satisfies object; o.a", 1),
    ("const v = <number>4; v", 4),
    ("const f = () => <{ a: number }>{ a: 5 }; f().a", 5),
    ("function f(): number { return <number>\n  7 } f()", 7),
    ("function id<T extends object | number>(x: T, y?: string, ...z: T[]): T { return x } id<number>(6)", 6),
    ("const f = <T,>(x: T): T => x; f<string>('s')", "s"),
    ("const f = (x: number): {\n  y: number\n} => ({ y: x }); f(2).y", 2),
    ("const f = (x: number)\n  : number => x; f(3)", 3),
    ("let got = 0; const f = async <\n  T\n>(x: T) => { got = 9 }; f(1); got", 9),
    ("interface X { a: number }\n(function () { return 8 })()", 8),
    ("let n = 1\ntype T = string\n[n].length", 1),
    ("let f = 1\ninterface I {}\n`t`", "t"),
    ("let x = 2 as any\n(3)", 3),
    ("let x: number\n(4)", 4),
    ("declare const q: number; declare function g(): void; typeof q", "undefined"),
    ("function f(a: string): void;\nfunction f(a: number): void;\nfunction f(a: any) { return a } f(1)", 1),
    ("function f(this: { a: number }, b: number) { return this.a + b } f.call({ a: 1 }, 2)", 3),
    ("function isText(x: unknown): x is string { return typeof x === 'string' } isText('')", True),
    ("function must(x: unknown): asserts x is string {} must(1); 1", 1),
    ("new Map<string, number[]>([['a', [1]]]).get('a')![0]", 1),
    ("const { a, b: [c] = [2] }: { a: number; b?: number[] } = { a: 1 }; a + c", 3),
    ("let s = 0; for (const x of [1, 2] as number[]) s += x; s", 3),
    ("try { throw 1 } catch (e: unknown) { e as number }", 1),
    ("class A<T> { private readonly x?: T; y!: number; declare z: T; static s: number = 4; [k: string]: any } A.s", 4),
    ("class A { get: number\n f() { return 1 } } new A().f()", 1),
    ("class A { x = 1\n declare y: number\n ['m']() { return this.x } } new A().m()", 1),
    (
        "abstract class A { abstract f(): number; abstract x: number; g(): number { return this.f() } }\n"
        "class B extends A implements Object { override f(): number { return 5 } override x = 1 } new B().g()",
        5,
    ),
    ("class A { m(a: string): void; m(a: any) { return a } private async n?(): Promise<void> {} } new A().m('q')", "q"),
    (
        "class A { constructor(private x: number, readonly y = 2, z = 3) {} sum() { return this.x + this.y } }\n"
        "new A(1).sum()",
        3,
    ),
    (
        "class A { a = 1 } class B extends A { constructor(public x: number) { super() } }\n"
        "const b = new B(7); b.x + b.a",
        8,
    ),
    ("enum E { A, B = 5, C } JSON.stringify([E.A, E.B, E.C, E[6]])", '[0,5,6,"C"]'),
    ("enum E { A = 'a', B = 'b' } JSON.stringify(E)", '{"A":"a","B":"b"}'),
    ("enum E { A = 1 << 2, B = A | 1, 'c d' = B + E.A, D } JSON.stringify([E.B, E['c d'], E.D])", "[5,9,10]"),
    ("const enum E // note\n{ A = -1, B = `t`, ['C'] = 2 } E[-1] + E.B + E.C", "At2"),
    ("enum E { A } enum E { B = 1 } E.A + E.B", 1),
    ("function f() { enum E { A = 3 } return E.A } f()", 3),
    ("export const a: number = 1; export function f() { return a } export class K { x = f() } new K().x", 1),
    ("import type { A } from 'a';\nexport type { A };\nexport interface B {}\nexport {};\n2", 2),
    ("let x = 1; x!++; (x as any) = x + 1; x", 3),
    ("const t = 'é😀' as string; t.length", 3),
    ("let z = ((a?: number): number => a ?? 1)(); z", 1),
    ("var log: string[] = []; { using r = { [Symbol.dispose]() { log.push('d') } }; log.push('b') } log.join()", "b,d"),
]


@pytest.mark.parametrize(("source", "value"), VALUES, ids=[source[:50] for source, _ in VALUES])
def test_erased_program_has_the_value_of_the_typescript(source: str, value: Any) -> None:
    assert run(source) == value


@pytest.mark.parametrize(("source", "value"), VALUES, ids=[source[:50] for source, _ in VALUES])
def test_lines_and_untouched_columns_are_kept(source: str, value: Any) -> None:
    erased = erase(source)
    source_lines, lines = source.split("\n"), erased.code.split("\n")
    assert len(lines) == len(source_lines)
    for number, (before, after) in enumerate(zip(source_lines, lines, strict=True), 1):
        assert len(after) == len(before) + sum(width for line, _, width in erased.shifts if line == number)


@pytest.mark.parametrize(
    ("first", "second", "value"),
    [
        ("let a = 1", "let a = 2; a", 2),
        ("const a = 1", "const a: number = 3; a", 3),
        ("class K { x = 1 }", "class K { x = 2 } new K().x", 2),
        ("enum E { A, B }", "enum E { C } JSON.stringify(E)", '{"0":"C","C":0}'),
        ("function f() { return 1 }", "function f() { return 2 } f()", 2),
        ("const { a, b } = { a: 1, b: 2 }", "const [a, b] = [3, 4]; a + b", 7),
        ("let a = 1", "let a: number | undefined; a === undefined", True),
        ("let a = 1, b = 2", "globalThis.a + globalThis.b", 3),
        ("class K { static s = K.name }", "globalThis.K.s", "K"),
    ],
)
def test_top_level_names_last_and_can_be_declared_again(first: str, second: str, value: Any) -> None:
    assert run(first, second) == value


def test_declarations_inside_blocks_stay_lexical() -> None:
    assert run("let x = 1; { let x = 2; const y = 3 } for (let x = 0; x < 3; x++); typeof y + x") == "undefined1"


def test_class_statement_does_not_swallow_the_next_line() -> None:
    assert run("class A {}\n(() => 1)()") == 1


@pytest.mark.parametrize(
    ("source", "code", "span"),
    [
        ("foo(1, 2", "SYNTAX_ERROR", (1, 9, 1, 9)),
        ("let x = ;", "SYNTAX_ERROR", (1, 9, 1, 10)),
        ("if (a { b }", "SYNTAX_ERROR", (1, 7, 1, 8)),
        ("a b", "SYNTAX_ERROR", (1, 3, 1, 4)),
        ("const é = '😀'; foo)", "SYNTAX_ERROR", (1, 19, 1, 20)),
        ("\n\n  }", "SYNTAX_ERROR", (3, 3, 3, 4)),
        ("x = {a: 1 b: 2}", "SYNTAX_ERROR", (1, 11, 1, 12)),
        ("let s = 'abc\nlet t = 1", "SYNTAX_ERROR", (1, 9, 1, 13)),
        ("'a\n'", "SYNTAX_ERROR", (1, 1, 1, 2)),
        ("f(/* never ends", "SYNTAX_ERROR", (1, 3, 1, 5)),
        ("return 5", "SYNTAX_ERROR", (1, 1, 1, 7)),
        ("[1].map(x => await f(x))", "SYNTAX_ERROR", (1, 14, 1, 19)),
        ("{ a: 1, b: 2 }", "SYNTAX_ERROR", (1, 1, 1, 15)),
        ("const a;", "SYNTAX_ERROR", (1, 7, 1, 8)),
        ("enum E { A = 'x', B }", "SYNTAX_ERROR", (1, 19, 1, 20)),
        ("'\ud800'", "SYNTAX_ERROR", (1, 2, 1, 3)),
        ("1\0", "SYNTAX_ERROR", (1, 2, 1, 3)),
        ("namespace X { }", "UNSUPPORTED_FEATURE", (1, 1, 1, 16)),
        ("import { a } from 'b'", "UNSUPPORTED_FEATURE", (1, 1, 1, 22)),
        ("const m = await import('x')", "UNSUPPORTED_FEATURE", (1, 17, 1, 23)),
        ("const fs = require('fs')", "UNSUPPORTED_FEATURE", (1, 12, 1, 19)),
        ("export { a }", "UNSUPPORTED_FEATURE", (1, 1, 1, 13)),
        ("export default 1", "UNSUPPORTED_FEATURE", (1, 1, 1, 17)),
        ("export * from 'x'", "UNSUPPORTED_FEATURE", (1, 1, 1, 18)),
        ("import.meta.url", "UNSUPPORTED_FEATURE", (1, 1, 1, 12)),
        ("@dec class A {}", "UNSUPPORTED_FEATURE", (1, 1, 1, 5)),
        ("class A { accessor x = 1 }", "UNSUPPORTED_FEATURE", (1, 11, 1, 19)),
        ("using x = f()", "UNSUPPORTED_FEATURE", (1, 1, 1, 6)),
        ("const q = <T>f<T>(1)", "UNSUPPORTED_FEATURE", (1, 11, 1, 17)),
        ("const t = tag<T>`x`", "UNSUPPORTED_FEATURE", (1, 11, 1, 20)),
    ],
)
def test_problem_stands_at_the_offending_token(source: str, code: str, span: tuple[int, int, int, int]) -> None:
    found_code, _, found_span = only_problem(source)
    assert (found_code, found_span) == (code, span)


def test_markup_is_refused_as_unsupported() -> None:
    assert only_problem("const x = <div>hi</div>")[0] == "UNSUPPORTED_FEATURE"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("foo(1, 2", "expected `)` to close the `(` at 1:4, found the end of the cell"),
        ("async function f() {\n  await x", "expected `}` to close the `{` at 1:20, found the end of the cell"),
        ("if (a { b }", "expected `)` before `{`"),
        ("foo)", "unexpected `)`"),
        ("let x = ;", "unexpected `;`: a name or an expression is missing before it"),
        ("x = `abc", "unterminated template"),
    ],
)
def test_syntax_error_names_what_was_found_or_expected(source: str, message: str) -> None:
    assert only_problem(source)[1] == message


def test_return_at_top_level_comes_with_the_way_out() -> None:
    assert erase("return 1").problems[0].hint == "the value of a cell is its last expression; drop `return`"


def test_modules_are_refused_with_a_hint_about_tools() -> None:
    assert "tools.name" in (erase("import x from 'y'").problems[0].hint or "")


def test_python_is_recognised() -> None:
    assert erase("def f(x):\n    return x").problems[0].hint == "cells are TypeScript, not Python"


def test_independent_errors_are_reported_together_and_at_most_twenty() -> None:
    assert [problem.line for problem in erase("let a = ;\nlet b = 1;\nlet c = ;\n").problems] == [1, 3]
    assert len(erase("return 1\n" * 50).problems) == 20


def test_bound_require_is_just_a_function() -> None:
    assert run("function require(x: string) { return x } require('fs')") == "fs"


def function_names(source: str) -> list[str]:
    return [function.name for function in erase(source).functions]


def test_functions_carry_the_names_that_stack_frames_show() -> None:
    source = """
        function a() {} const b = () => 1; const c = function () {};
        const o = { d: () => 1, e() {}, get f() { return 1 } };
        class K { constructor() {} g() {} h = () => 1; static #i() {} } let j; j = async () => 1; [1].map(x => x);
        const { l = () => 1 } = {}; function* m() {} const n = function inner() {}; const p = (() => 1) as any;
    """
    assert function_names(source) == [*"abcde", "get f", "K", "g", "h", "#i", "j", "", "l", "m", "inner", "p"]


def test_function_range_covers_the_function() -> None:
    (function,) = erase("1;\n  const f = async (é: number) =>\n  é").functions
    assert (function.line, function.column, function.end_line, function.end_column) == (2, 13, 3, 4)


def references(source: str) -> list[tuple[str, bool]]:
    return [(reference.name, reference.awaited) for reference in erase(source).references]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("search('a')", [("search", False)]),
        ("await search('a')", [("search", True)]),
        ("const r = (await (tools.search<T>({})) as X)!", [("tools.search", True)]),
        ("await tools.search<T>({})", [("tools.search", True)]),
        ("tools['web-search']({})", [("tools.web-search", False)]),
        ("await tools.web.search({})", [("tools.web.search", True)]),
        ("function f(g: any) { g(); h() } f()", [("h", False)]),
        ("const { a, ...b } = x; a(); b(); c.d()", [("c.d", False)]),
        ("try {} catch (e) { e() } for (const k of y) k(); class Q {} Q(); enum E {} E(); (z => z())()", []),
        ("await Promise.all([tools.a(), tools.b()])", [("Promise.all", True), ("tools.a", False), ("tools.b", False)]),
        ("x().y().z", [("x", False)]),
        ("!f<T>(1) || a + g<T>(2)", [("f", False), ("g", False)]),
    ],
)
def test_references_are_the_calls_to_what_the_cell_does_not_bind(source: str, expected: list[tuple[str, bool]]) -> None:
    assert sorted(references(source)) == sorted(expected)


def test_reference_spans_the_callee() -> None:
    (reference,) = erase("'😀';\n  await tools.search({})").references
    assert (reference.line, reference.column, reference.end_line, reference.end_column) == (2, 9, 2, 21)


@pytest.mark.parametrize(
    ("source", "has_value"),
    [
        ("1", True),
        ("let a = 1", False),
        ("1;\n// note\ninterface X {}\n;", True),
        ("1; function f() {}", False),
        ("if (1) { 2 }", False),
        ("f()\nexport type A = 1", True),
        ("", False),
        ("await tools.a()", True),
    ],
)
def test_last_expression_statement_is_the_value(source: str, has_value: bool) -> None:
    assert erase(source).has_value is has_value


def test_code_without_types_is_returned_as_it_is() -> None:
    source = "var a = 1;\r\nfunction f(x) { return `${x} \\` é` }\n"
    assert erase(source) == Erased(source, (), erase(source).functions, (), False, ())


def test_positions_in_generated_code_map_back() -> None:
    source = "class A {} class B { constructor(private x: number) { boom() } }"
    erased = erase(source)
    for word in ("A {", "B {", "constructor", "boom", "x "):
        column = erased.code.index(word) + 1 if word != "x " else erased.code.index("        x") + 9
        line, found = original_position(erased.shifts, 1, column)
        assert source[found - 1 :].startswith(word.strip().split()[0])
        assert line == 1
    assert original_position(erased.shifts, 1, erased.code.index("this.x") + 3) == (1, source.index(" boom") + 1)


@pytest.mark.parametrize(
    "source",
    [
        "boom.x",
        "  boom.x",
        "'é'; boom.x",
        "1;\n'😀é'; boom.x",
        "class K {} boom.x",
        "let a: number = 1; enum E { A } boom.x",
    ],
)
def test_guest_stack_leads_to_the_source_token(source: str) -> None:
    erased = erase(source)
    with pytest.raises(JSError) as caught:
        Guest().run(source)
    stack = str(caught.value.stack)
    line, column = (int(part) for part in stack[stack.rindex("(") : stack.rindex(")")].split(":")[-2:])
    line, column = original_position(erased.shifts, *guest_position(erased.code, line, column))
    assert source.split("\n")[line - 1][column - 1 :].startswith("boom")


NESTED = ["(", "[", "{", "a<", "`${", "x=>", "class A{", "f(", "<T>", "let x: (", "if(a)", "a?", "!", "'\n", "@", "/*"]


@pytest.mark.parametrize("piece", NESTED)
def test_endless_nesting_ends_in_a_problem_soon(piece: str) -> None:
    # Of this thread's own time: how long others take on the machine is not its doing.
    started = time.thread_time()
    assert erase(piece * 20_000).problems
    assert time.thread_time() - started < 5


def test_deep_but_valid_nesting_is_erased() -> None:
    source = "(" * 50_000 + "1 as number" + ")" * 50_000
    assert erase(source).code == source.replace("as number", "         ")


def test_a_megabyte_is_erased_in_seconds() -> None:
    source = "const é: Map<string, number> = await tools.fetch<T>({ id: 1 }) as any;\n" * 14_000
    started = time.thread_time()
    assert not erase(source).problems
    assert time.thread_time() - started < 10


@given(st.text())
def test_no_text_makes_it_raise(source: str) -> None:
    assert erase(source).code == "" or not erase(source).problems


TOKENS = """let const var a b é 😀 = == : ; , . ? ! ( ) { } [ ] < > => + - / * ` ' " ${ as satisfies any number class
enum interface type function async await return this private readonly static abstract declare export import new 1 'x'
constructor super extends implements \n \r\n // /* */ @ # ... ?. | &""".split(" ")


@given(st.lists(st.sampled_from([token or " " for token in TOKENS]), max_size=30).map(" ".join))
def test_no_mix_of_tokens_makes_it_raise(source: str) -> None:
    erased = erase(source)
    for problem in erased.problems:
        assert (problem.line, problem.column) <= (problem.end_line, problem.end_column)
        assert 1 <= problem.line <= source.count("\n") + 1


TYPES = ["number", "{ a: string;\n b?: T }", "Map<string, T[]>", "'é😀' | T", "(x: T) => void", "[a: T]"]
PIECES = [
    "var v: §;\n",
    "let v: § = 1;\n",
    "const é = (x as §);\n",
    "function f<A extends §>(this: §, a?: §, ...b: §): § { return a! }\n",
    "interface I { a: § }\n",
    "type T = §;\n",
    "const g = async (x: §): § => x satisfies §;\n",
    "'😀'; f<§>(1 as §);\n",
    "{ class Q<A> implements I { private x?: § = 1; declare y: §; m(a: §): void; m(a: §) {} } }\n",
    "declare const d: §;\n",
    "// § stays\n",
]


@given(st.lists(st.tuples(st.sampled_from(PIECES), st.sampled_from(TYPES)), max_size=8))
def test_every_character_is_kept_or_blank(pieces: list[tuple[str, str]]) -> None:
    source = "".join(piece.replace("§", "number" if piece.startswith("//") else kind) for piece, kind in pieces)
    erased = erase(source)
    assert erased.problems == ()
    assert erased.shifts == ()
    assert len(erased.code) == len(source)
    # A `;` may stand for a blanked statement, a `)` may have moved behind a blanked type.
    allowed = {" ", ";", ")"}
    for at, (before, after) in enumerate(zip(source, erased.code, strict=True)):
        keyword = source[max(0, at - 4) : at + 5]
        assert after == before or after in allowed or "let" in keyword or "const" in keyword
        assert (before == "\n") == (after == "\n")


def test_result_can_be_sent_as_json() -> None:
    erased = erase("let s = 'a\u2028b' as string; f(s)")
    assert json.loads(json.dumps(erased.code)) == erased.code
