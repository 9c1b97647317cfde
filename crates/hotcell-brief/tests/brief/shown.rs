//! What is shown, counted by o200k, against the budget.

use hotcell_brief::{
    Brief, ErrorPart, Parts, ResultContent, ResultPart, Shown, ShownResult, Strategy, Text,
};
use serde_json::{Value, json};
use tiktoken_rs::CoreBPE;

use crate::corpus;

const STRATEGIES: [Strategy; 4] =
    [Strategy::Auto, Strategy::Truncate, Strategy::Summarise, Strategy::Sample];

/// Characters that are in no dictionary cost twice what the usual ones do, and are not told apart.
const UNUSUAL: &str = "rare han";

/// What a model pays for it, each text counted by itself.
fn real(tokenizer: &CoreBPE, shown: &Shown) -> usize {
    let result = match &shown.result {
        Some(ShownResult::Json(value)) => value.to_string(),
        Some(ShownResult::Text(text)) => text.clone(),
        None => String::new(),
    };
    let error = shown.error.clone().unwrap_or_default();
    let cuts = serde_json::to_string(&shown.cut).unwrap();
    [&shown.stdout, &shown.stderr, &result, &error.kind, &error.message, &error.traceback, &cuts]
        .iter()
        .map(|text| tokenizer.encode_ordinary(text).len())
        .sum()
}

#[test]
fn the_real_cost_keeps_to_the_budget_when_each_fits_what_it_is() {
    hold_to_the_budget(Strategy::Auto);
}

#[test]
fn the_real_cost_keeps_to_the_budget_when_it_is_truncated() {
    hold_to_the_budget(Strategy::Truncate);
}

#[test]
fn the_real_cost_keeps_to_the_budget_when_it_is_summarised() {
    hold_to_the_budget(Strategy::Summarise);
}

#[test]
fn the_real_cost_keeps_to_the_budget_when_it_is_sampled() {
    hold_to_the_budget(Strategy::Sample);
}

fn hold_to_the_budget(strategy: Strategy) {
    let tokenizer = tiktoken_rs::o200k_base().unwrap();
    let mut over = Vec::new();
    for (kind, text) in corpus::texts(10_000) {
        let value = json!({ "rows": vec![json!({ "text": text.get(..200) }); 40], "all": text });
        let mut cases: Vec<(&str, Parts<'_>, usize)> = Vec::new();
        cases.extend(carriers(&text, &value).into_iter().map(|(name, parts)| (name, parts, 300)));
        cases.extend(carriers(&text, &value).pop().map(|(name, parts)| (name, parts, 1_500)));
        for (what, parts, budget) in cases {
            let shown = Brief::new(budget, strategy).show(&parts);
            let percent = real(&tokenizer, &shown) * 100 / budget;
            if percent > if kind == UNUSUAL { 230 } else { 115 } {
                over.push(format!("{kind} as {what} in {budget}: {percent} %"));
            }
        }
    }
    assert!(over.is_empty(), "over the budget:\n{}", over.join("\n"));
}

fn carriers<'a>(text: &'a str, value: &'a Value) -> Vec<(&'static str, Parts<'a>)> {
    let stdout = || Text::whole(text).read_by("exec_logs e_1 stdout");
    let error = || {
        let lines = ErrorPart { kind: "ValueError", message: text, traceback: text, more: None };
        Some(lines)
    };
    let result = || {
        let content = ResultContent::Json(value);
        Some(ResultPart { content, more: Some("/workspace/.results/e_1/result.json") })
    };
    vec![
        ("stdout", Parts { stdout: stdout(), ..Parts::default() }),
        ("result", Parts { result: result(), ..Parts::default() }),
        ("error", Parts { error: error(), ..Parts::default() }),
        ("all", Parts { stdout: stdout(), stderr: stdout(), result: result(), error: error() }),
    ]
}

#[test]
fn one_line_of_ten_megabytes_keeps_to_the_budget() {
    let tokenizer = tiktoken_rs::o200k_base().unwrap();
    let line = "a1B2c3+/".repeat(10 << 17);
    for strategy in STRATEGIES {
        let parts = Parts { stdout: Text::whole(&line), ..Parts::default() };
        let shown = Brief::new(2_000, strategy).show(&parts);
        assert!(real(&tokenizer, &shown) <= 2_300, "{strategy:?}");
        assert_eq!(shown.cut[0].total, 10 << 20);
    }
}

#[test]
fn a_budget_that_is_not_kept_would_be_noticed() {
    let tokenizer = tiktoken_rs::o200k_base().unwrap();
    let stdout = "ᚠᚢᚦ".repeat(1_000);
    let shown = Shown { stdout, ..Shown::default() };
    assert!(real(&tokenizer, &shown) > 2_300);
}
