//! The budget holds whatever comes, what fits is shown as it is, and nothing starves.

use proptest::prelude::*;
use proptest::strategy::Strategy as Generator;
use serde_json::{Value, json};

use crate::{
    Brief, ErrorPart, LEAST_BUDGET, Part, Parts, ResultContent, ResultPart, Shown, ShownResult,
    Strategy, Text, estimate_tokens,
};

const STRATEGIES: [Strategy; 4] =
    [Strategy::Auto, Strategy::Truncate, Strategy::Summarise, Strategy::Sample];

/// What is shown costs, counted again from what came out.
fn counted(shown: &Shown) -> usize {
    let result = match &shown.result {
        Some(ShownResult::Json(value)) => value.to_string(),
        Some(ShownResult::Text(text)) => text.clone(),
        None => String::new(),
    };
    let error = shown.error.clone().unwrap_or_default();
    let cuts: Vec<String> =
        shown.cut.iter().map(|cut| serde_json::to_string(cut).unwrap()).collect();
    [&shown.stdout, &shown.stderr, &result, &error.kind, &error.message, &error.traceback]
        .into_iter()
        .chain(&cuts)
        .map(|text| estimate_tokens(text))
        .sum()
}

#[test]
fn tokens_of_nothing_are_none() {
    assert_eq!(estimate_tokens(""), 0);
    assert_eq!(estimate_tokens("hello world"), 2);
}

#[test]
fn what_fits_is_shown_as_it_is() {
    let value = json!({"a": [1, 2, {"b": null}]});
    let parts = Parts {
        stdout: Text::whole("one\ntwo\n"),
        stderr: Text::whole("careful"),
        result: Some(ResultPart { content: ResultContent::Json(&value), more: None }),
        error: Some(ErrorPart {
            kind: "ValueError",
            message: "no",
            traceback: "Traceback\nValueError: no\n",
            more: Some("never needed"),
        }),
    };
    for strategy in STRATEGIES {
        let shown = Brief::new(2_000, strategy).show(&parts);
        assert_eq!((&*shown.stdout, &*shown.stderr), ("one\ntwo\n", "careful"));
        assert_eq!(shown.result, Some(ShownResult::Json(value.clone())));
        let error = shown.error.clone().unwrap();
        assert_eq!((&*error.kind, &*error.message), ("ValueError", "no"));
        assert_eq!(error.traceback, "Traceback\nValueError: no\n");
        assert_eq!(shown.cut, []);
        assert_eq!(shown.tokens, counted(&shown));
    }
}

#[test]
fn nothing_starves_when_everything_is_too_large() {
    let words: String = (0..8_000).map(|at| format!("line {at} of many\n")).collect();
    let value = json!((0..6_000).map(|at| json!({"id": at, "name": "n"})).collect::<Vec<_>>());
    let traceback = format!("Traceback:\n{words}KeyError: 'the last line'");
    let parts = Parts {
        stdout: Text::whole(&words).read_by("exec_logs e_1 stdout"),
        stderr: Text::whole(&words),
        result: Some(ResultPart { content: ResultContent::Json(&value), more: Some("cat r.json") }),
        error: Some(ErrorPart {
            kind: "KeyError",
            message: &words,
            traceback: &traceback,
            more: None,
        }),
    };
    for strategy in STRATEGIES {
        for budget in [LEAST_BUDGET, 2_000, 8_000] {
            let shown = Brief::new(budget, strategy).show(&parts);
            let error = shown.error.clone().unwrap();
            assert!(counted(&shown) <= budget && shown.tokens <= budget, "{strategy:?} {budget}");
            assert!(shown.tokens * 10 >= budget * 7, "{} of {budget} are used", shown.tokens);
            assert_eq!(error.kind, "KeyError");
            assert!(error.message.starts_with("line 0 of"), "{}", error.message);
            assert!(error.traceback.ends_with("KeyError: 'the last line'"), "{}", error.traceback);
            assert!(shown.stdout.len() > 10 && shown.stderr.len() > 10, "{shown:?}");
            let Some(ShownResult::Text(result)) = &shown.result else { panic!("{shown:?}") };
            assert!(result.len() > 20, "{result}");
            let cut: Vec<Part> = shown.cut.iter().map(|cut| cut.part).collect();
            assert_eq!(cut, [Part::Error, Part::Result, Part::Stdout, Part::Stderr]);
            assert_eq!(shown.cut[1].how_to_read_more.as_deref(), Some("cat r.json"));
        }
    }
}

#[test]
fn what_one_does_not_use_goes_to_the_next() {
    let words: String = (0..50_000).map(|at| format!("{at} zebra crossing\n")).collect();
    let mut parts = Parts { stdout: Text::whole(&words), ..Parts::default() };
    let alone = Brief::new(2_000, Strategy::Truncate).show(&parts).stdout.len();
    parts.error = Some(ErrorPart { kind: "ValueError", message: "no", traceback: "", more: None });
    let with_error = Brief::new(2_000, Strategy::Truncate).show(&parts).stdout.len();
    assert!(with_error + 100 > alone, "{with_error} of {alone}");
    parts.stderr = Text::whole(&words);
    let with_stderr = Brief::new(2_000, Strategy::Truncate).show(&parts);
    assert!(with_stderr.stdout.len() > with_stderr.stderr.len());
    assert!(with_stderr.stderr.len() * 4 > alone);
}

#[test]
fn a_part_that_is_small_is_whole_beside_one_that_is_not() {
    let words = "again and again\n".repeat(100_000);
    let parts = Parts {
        stdout: Text::whole(&words),
        stderr: Text::whole("just this\n"),
        ..Parts::default()
    };
    let shown = Brief::new(600, Strategy::Auto).show(&parts);
    assert_eq!(shown.stderr, "just this\n");
    assert_eq!(shown.cut.len(), 1);
}

#[test]
fn a_text_without_its_middle_says_so_even_when_it_is_short() {
    let parts = Parts {
        stdout: Text::pieces(b"first\nsecond\n", b"last\n", 1_000_000, 70_000),
        ..Parts::default()
    };
    let shown = Brief::new(2_000, Strategy::Auto).show(&parts);
    let gap = "[… 69997 lines, 999982 bytes left out …]";
    assert_eq!(shown.stdout, format!("first\nsecond\n{gap}\nlast\n"));
    assert_eq!((shown.cut[0].total, shown.cut[0].part), (1_000_000, Part::Stdout));
}

#[test]
fn characters_that_were_cut_in_two_are_left_out_and_others_replaced() {
    let euro = "€€".as_bytes();
    let cut = Text::pieces(&euro[..5], &euro[1..], 100, 1);
    assert_eq!((&*cut.head, &*cut.tail), ("€", "€"));
    let whole = Text::pieces(&euro[..4], &euro[4..], 6, 1);
    assert_eq!((&*whole.head, &*whole.tail), ("€€", ""));
    let bytes = Text::pieces(b"a\xffb", b"", 3, 1);
    assert_eq!(bytes.head, "a\u{fffd}b");
}

#[test]
fn words_on_how_to_read_more_cannot_eat_the_budget() {
    let words = "again and again\n".repeat(10_000);
    let more = "far too long ".repeat(10_000);
    let parts = Parts { stdout: Text::whole(&words).read_by(&more), ..Parts::default() };
    let shown = Brief::new(500, Strategy::Auto).show(&parts);
    assert!(counted(&shown) <= 500);
    assert_eq!(shown.cut[0].how_to_read_more, None);
}

#[test]
fn a_type_or_a_last_line_of_any_length_leaves_room_for_the_rest() {
    let long = "x".repeat(1_000_000);
    let parts = Parts {
        error: Some(ErrorPart { kind: &long, message: &long, traceback: &long, more: None }),
        ..Parts::default()
    };
    let shown = Brief::new(LEAST_BUDGET, Strategy::Auto).show(&parts);
    let error = shown.error.clone().unwrap();
    assert!(counted(&shown) <= LEAST_BUDGET);
    assert!(error.kind.len() > 20 && error.message.len() > 20 && error.traceback.len() > 20);
}

fn any_text() -> impl Generator<Value = String> {
    let piece = prop_oneof![
        any::<String>(),
        "[a-z ]{0,40}\n",
        "[0-9]{1,6},[a-z]{1,8},[0-9.]{1,5}\n",
        "(INFO|ERROR|WARN) [a-z]{3} [0-9]{4}\n",
        "\\{\"[a-z]{1,3}\":[0-9]{1,3}\\}\n",
        "[\\u4e00-\\u4eff]{0,20}",
        "[\\x00-\\x1f]{0,20}",
        "[A-Za-z0-9+/]{0,60}",
    ];
    (prop::collection::vec(piece, 0..12), 1_usize..30)
        .prop_map(|(pieces, times)| pieces.concat().repeat(times))
}

fn any_value() -> impl Generator<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any_text().prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 200, 20, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..20).prop_map(Value::from),
            prop::collection::btree_map("[a-z]{0,8}", inner, 0..20).prop_map(Value::from_iter),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn the_budget_holds_whatever_comes(
        texts in prop::collection::vec(any_text(), 6),
        bytes in prop::collection::vec(any::<u8>(), 0..300),
        missing in 0_u64..3,
        value in prop::option::of(any_value()),
        budget in 0_usize..3_000,
        strategy in prop::sample::select(STRATEGIES.to_vec()),
    ) {
        let stderr_total = bytes.len() as u64 + texts[5].len() as u64 + missing * 1_000;
        let content = match &value {
            Some(value) => ResultContent::Json(value),
            None => ResultContent::Text(Text::whole(&texts[4])),
        };
        let parts = Parts {
            stdout: Text::whole(&texts[0]).read_by("exec_logs"),
            stderr: Text::pieces(&bytes, texts[5].as_bytes(), stderr_total, stderr_total / 9),
            result: Some(ResultPart { content, more: None }),
            error: Some(ErrorPart {
                kind: &texts[1],
                message: &texts[2],
                traceback: &texts[3],
                more: None,
            }),
        };
        let budget = budget.max(LEAST_BUDGET);
        let brief = Brief::new(budget, strategy);
        let shown = brief.show(&parts);
        let cost = counted(&shown);
        prop_assert!(cost <= budget, "{cost} of {budget}: {shown:?}");
        prop_assert!(cost <= shown.tokens && shown.tokens <= budget);
        prop_assert_eq!(&shown, &brief.show(&parts));
        if shown.cut.is_empty() {
            prop_assert_eq!(&shown.stdout, &texts[0]);
            prop_assert_eq!(&shown.error.as_ref().unwrap().traceback, &texts[3]);
        }
        let roomy = Brief::new(usize::MAX / 1_000, strategy).show(&parts);
        prop_assert_eq!(&roomy.stdout, &texts[0]);
        prop_assert_eq!(roomy.cut.is_empty(), missing == 0);
    }
}
