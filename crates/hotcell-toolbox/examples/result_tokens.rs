//! Tokens (o200k) of what models see of results, per task and client (`scripts/bench-tokens --results`).
//!
//! usage: result_tokens AFTER [BEFORE]
//! Both are files of JSON lines from `results/measure.py`. Fails if AFTER lacks something that a task needs, or
//! if the two do not have the same clients and tasks.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program whose output is figures")]

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::process::ExitCode;

use serde_json::Value;
use tiktoken_rs::CoreBPE;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Lines of the list of what is missing, per client.
const MOST_MISSING: usize = 40;

/// The tokens of one measurement.
#[derive(Default)]
struct Figures {
    /// Clients with the form of results they show, in the order of the file.
    clients: Vec<(String, String)>,
    tasks: Vec<String>,
    /// Tokens by client, task and kind of line.
    tokens: BTreeMap<(String, String, String), usize>,
    /// Tokens of results by client and tool.
    tools: BTreeMap<(String, String), usize>,
    /// Calls by client.
    calls: BTreeMap<String, usize>,
    /// The most tokens of one result, by client.
    largest: BTreeMap<String, usize>,
    missing: Vec<String>,
}

impl Figures {
    fn read(counter: &CoreBPE, file: &str) -> Result<Self> {
        let mut figures = Self::default();
        for line in fs::read_to_string(file)?.lines() {
            let line: Value = serde_json::from_str(line)?;
            let field = |name: &str| line[name].as_str().unwrap_or_default().to_owned();
            let (client, task, kind, text) =
                (field("client"), field("task"), field("kind"), field("text"));
            let known = (client.clone(), field("form"));
            if !figures.clients.contains(&known) {
                figures.clients.push(known);
            }
            if !task.is_empty() && !figures.tasks.contains(&task) {
                figures.tasks.push(task.clone());
            }
            if kind == "missing" {
                figures.missing.push(format!("{client}: {task}: {text}"));
                continue;
            }
            let tokens = counter.encode_ordinary(&text).len();
            if kind == "result" {
                *figures.tools.entry((client.clone(), field("tool"))).or_default() += tokens;
                *figures.calls.entry(client.clone()).or_default() += 1;
                let largest = figures.largest.entry(client.clone()).or_default();
                *largest = tokens.max(*largest);
            }
            *figures.tokens.entry((client, task, kind)).or_default() += tokens;
        }
        Ok(figures)
    }

    fn of(&self, client: &str, task: &str, kind: &str) -> usize {
        let key = (client.to_owned(), task.to_owned(), kind.to_owned());
        self.tokens.get(&key).copied().unwrap_or_default()
    }

    /// The tokens of one kind in all tasks.
    fn total(&self, client: &str, kind: &str) -> usize {
        self.tasks.iter().map(|task| self.of(client, task, kind)).sum()
    }

    fn has_same_tasks(&self, other: &Self) -> bool {
        self.clients == other.clients && self.tasks == other.tasks
    }

    fn tool(&self, client: &str, tool: &str) -> usize {
        self.tools.get(&(client.to_owned(), tool.to_owned())).copied().unwrap_or_default()
    }

    /// The task with the most tokens of results in all clients together.
    fn largest_task(&self) -> &str {
        let cost = |task: &&String| -> usize {
            self.clients.iter().map(|(client, _)| self.of(client, task, "result")).sum()
        };
        self.tasks.iter().max_by_key(cost).map_or("", String::as_str)
    }
}

/// A measurement, and an earlier one to compare it with.
struct Report {
    before: Option<Figures>,
    after: Figures,
}

impl Report {
    /// One figure, with the earlier one in front if there is one.
    fn pair(&self, figure: impl Fn(&Figures) -> usize) -> String {
        match &self.before {
            Some(before) => format!("{} → {}", figure(before), figure(&self.after)),
            None => figure(&self.after).to_string(),
        }
    }

    fn ratio(&self, figure: impl Fn(&Figures) -> usize) -> String {
        match &self.before {
            Some(before) => format!("{:.2}", quotient(figure(&self.after), figure(before))),
            None => "—".to_owned(),
        }
    }

    /// The median over all tasks of their ratios: no single task decides it.
    fn median_ratio(&self, client: &str) -> String {
        let Some(before) = &self.before else { return "—".to_owned() };
        let ratio = |task: &String| {
            quotient(self.after.of(client, task, "result"), before.of(client, task, "result"))
        };
        let mut ratios: Vec<f64> = self.after.tasks.iter().map(ratio).collect();
        ratios.sort_unstable_by(f64::total_cmp);
        let upper = ratios.len() / 2;
        let lower = ratios.len().saturating_sub(1) / 2;
        match (ratios.get(lower), ratios.get(upper)) {
            (Some(lower), Some(upper)) => format!("{:.2}", f64::midpoint(*lower, *upper)),
            _ => "—".to_owned(),
        }
    }

    fn print(&self) {
        self.print_clients();
        self.print_tasks();
        self.print_tools();
    }

    fn print_clients(&self) {
        let largest = match &self.before {
            Some(before) => before.largest_task(),
            None => self.after.largest_task(),
        };
        println!(
            "| client | shows | definitions | instructions | output schemas (not shown) | arguments | results | ratio \
             | ratio without task {} | median ratio of tasks | largest result |",
            largest.split('.').next().unwrap_or_default()
        );
        println!("|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|");
        for (client, form) in &self.after.clients {
            let once = |kind: &str| self.pair(|figures| figures.of(client, "", kind));
            println!(
                "| {client} | {form} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
                once("definitions"),
                once("instructions"),
                once("output_schemas"),
                self.pair(|figures| figures.total(client, "arguments")),
                self.pair(|figures| figures.total(client, "result")),
                self.ratio(|figures| figures.total(client, "result")),
                self.ratio(|figures| {
                    figures.total(client, "result") - figures.of(client, largest, "result")
                }),
                self.median_ratio(client),
                self.pair(|figures| figures.largest.get(client).copied().unwrap_or_default()),
            );
        }
        let all = |figures: &Figures, figure: &dyn Fn(&str) -> usize| -> usize {
            figures.clients.iter().map(|(client, _)| figure(client)).sum()
        };
        let arguments =
            |figures: &Figures| all(figures, &|client| figures.total(client, "arguments"));
        let results = |figures: &Figures| all(figures, &|client| figures.total(client, "result"));
        let rest = |figures: &Figures| {
            all(figures, &|client| {
                figures.total(client, "result") - figures.of(client, largest, "result")
            })
        };
        println!(
            "| **all** | | | | | {} | **{}** | **{}** | {} | | |",
            self.pair(arguments),
            self.pair(results),
            self.ratio(results),
            self.ratio(rest),
        );
    }

    fn print_tasks(&self) {
        println!("\n| results of the task |{}", self.heads());
        println!("|---|{}", "---:|".repeat(self.after.clients.len()));
        for task in &self.after.tasks {
            let cells = self.after.clients.iter().map(|(client, _)| {
                format!(" {} |", self.pair(|figures| figures.of(client, task, "result")))
            });
            println!("| {task} |{}", cells.collect::<String>());
        }
    }

    fn print_tools(&self) {
        let mut tools: Vec<&String> = self.after.tools.keys().map(|(_, tool)| tool).collect();
        tools.sort_unstable();
        tools.dedup();
        println!("\n| results of the tool |{}", self.heads());
        println!("|---|{}", "---:|".repeat(self.after.clients.len()));
        for tool in tools {
            let cells = self.after.clients.iter().map(|(client, _)| {
                format!(" {} |", self.pair(|figures| figures.tool(client, tool)))
            });
            println!("| {tool} |{}", cells.collect::<String>());
        }
        let calls = self.after.clients.iter().map(|(client, _)| {
            let calls = |figures: &Figures| figures.calls.get(client).copied().unwrap_or_default();
            format!(" {} |", self.pair(calls))
        });
        println!("| *calls* |{}", calls.collect::<String>());
    }

    fn heads(&self) -> String {
        self.after.clients.iter().map(|(client, _)| format!(" {client} |")).collect()
    }
}

#[expect(clippy::cast_precision_loss, reason = "thousands of tokens")]
fn quotient(after: usize, before: usize) -> f64 {
    after as f64 / before.max(1) as f64
}

fn print_missing(when: &str, figures: &Figures) {
    eprintln!("missing {when}: {}", figures.missing.len());
    for (client, _) in &figures.clients {
        let own = figures.missing.iter().filter(|line| line.starts_with(&format!("{client}: ")));
        own.take(MOST_MISSING).for_each(|line| eprintln!("  {line}"));
    }
}

fn main() -> Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let counter = tiktoken_rs::o200k_base()?;
    let (after, before) = match arguments.as_slice() {
        [after] => (Figures::read(&counter, after)?, None),
        [after, before] => {
            (Figures::read(&counter, after)?, Some(Figures::read(&counter, before)?))
        }
        _ => return Err("usage: result_tokens AFTER [BEFORE]".into()),
    };
    if let Some(before) = &before {
        if !before.has_same_tasks(&after) {
            return Err("the two measurements do not have the same clients and tasks".into());
        }
        print_missing("before", before);
    }
    let report = Report { before, after };
    report.print();
    print_missing("now", &report.after);
    Ok(if report.after.missing.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
