//! What was written is what is run, line by line.

use crate::{Fault, LAST_VALUE, Language, Script, read};

fn javascript(source: &str) -> Script {
    read(source, Language::JavaScript).unwrap()
}

fn typescript(source: &str) -> String {
    read(source, Language::TypeScript).unwrap().code
}

fn fault(source: &str) -> Fault {
    read(source, Language::TypeScript).unwrap_err()
}

#[test]
fn the_last_expression_is_exported_where_it_stood() {
    let put = format!("export const {LAST_VALUE} = await (");
    for (source, expected) in [
        ("1 + 1", format!("{put}1 + 1)")),
        ("let x = 1\n\nx // kept\n", format!("let x = 1\n\n{put}x) // kept\n")),
        ("a, b;", format!("{put}a, b);")),
        ("'text'", format!("{put}'text')")),
        ("({\n  a: 1\n})\n", format!("{put}({{\n  a: 1\n}}))\n")),
        ("await x", format!("{put}await x)")),
    ] {
        let script = javascript(source);
        assert_eq!(script.code, expected);
        assert_eq!(script.code.lines().count(), source.lines().count());
        assert_eq!(script.map, None);
    }
    let inserted = javascript("let x\n  'é😀'; x").inserted.unwrap();
    assert_eq!((inserted.line, inserted.column), (2, 10));
    for source in ["let x = 1", "if (1) { 2 }", "function f() {}", "export default 7", "// no", ""]
    {
        let script = javascript(source);
        assert_eq!((script.code.as_str(), script.inserted), (source, None));
    }
}

#[test]
fn types_are_taken_away_and_what_they_make_stays() {
    for (source, kept, gone) in [
        ("interface A { x: number }\nconst a: A = { x: 1 }", "const a = { x: 1 }", "interface"),
        ("enum E { A, B = 5 }\nE.B", "E[\"B\"] = 5", "enum E"),
        ("class P { constructor(private x: number) {} }", "this.x = x", "private"),
        ("const f = <T,>(x: T): T => x as T", "x => x", "as T"),
        ("namespace N { export const x = 1 }\nN.x", "x = 1", "namespace"),
        ("import type { T } from 'tools/a'\nlet x: T", "let x", "tools/a"),
        ("import { T } from 'tools/a'\nlet x: T", "let x", "tools/a"),
        ("x!.y satisfies number", "x.y", "satisfies"),
    ] {
        let made = typescript(source).replace("(x) =>", "x =>");
        assert!(made.contains(kept) && !made.contains(gone), "{source}\n{made}");
    }
}

#[test]
fn places_are_those_of_what_was_written() {
    let source =
        "interface A {\n  x: number\n}\n\nfunction f(): never {\n  throw new Error('x')\n}\nf()";
    let script = read(source, Language::TypeScript).unwrap();
    let at = script.code.lines().position(|line| line.contains("throw")).unwrap();
    let map = script.map.unwrap();
    assert_eq!(map[at][0][1], 5, "{:?}", map[at]);
}

#[test]
fn what_is_wrong_is_told_where_it_is() {
    let wrong = fault("let a = 1\nlet b = (\n");
    assert_eq!(wrong.line, Some(3), "{wrong:?}");
    let wrong = fault("let a = 1\n  let é = ) + 1\n");
    assert_eq!(wrong.line, Some(2), "{wrong:?}");
    assert_eq!(wrong.shown, "      let é = ) + 1\n              ^");
    assert!(wrong.traceback().starts_with("<code>:2\n"), "{wrong:?}");
    let long = format!("let x = [{}", "1,".repeat(5000));
    assert!(fault(&long).shown.len() < 1000);
}

#[test]
fn no_text_makes_reading_panic() {
    for source in
        ["\u{0}", "\u{feff}1", "#!x", "`${", "/(/", "<T>", "@", "'\\u{110000}'", "é = \u{2028}1"]
    {
        let _ = read(source, Language::TypeScript);
        let _ = read(source, Language::JavaScript);
    }
}
