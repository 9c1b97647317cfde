//! What tools cost a model, counted by o200k over the listings of real servers (`scripts/bench-tokens`).
//!
//! usage: tokens LISTINGS QUERIES [TASKS]
//! LISTINGS is a directory of `NAME.json` with what each server listed, QUERIES has `words => server.tool | …`
//! on its lines, TASKS what was written and read when whole tasks were done (`servers/tasks.py`); without it
//! the tools of code mode are counted as the most that they may cost.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program whose output is figures")]

use std::error::Error;
use std::fs;
use std::path::Path;

use hotcell_toolbox::{
    Catalog, Language, MAX_HITS, Observations, SearchDetail, ServerListing, Tool, ToolHit,
    ToolIndex, ToolKey, ToolQuery, ToolTree, Trust, seeded_policy, show_hits,
};
use serde_json::{Value, json};
use tiktoken_rs::CoreBPE;

/// The most that the tools of code mode may cost by themselves.
const MOST_FIXED: usize = 600;
/// Tools that an answer shows.
const HITS: usize = 5;
/// The sets of servers that are looked at beside all of them.
const ONE: &[&str] = &["github"];
const FIVE: &[&str] = &["filesystem", "git", "github", "memory", "slack"];

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// What one server listed, as it came.
struct Listed {
    name: String,
    title: Option<String>,
    instructions: Option<String>,
    tools: Vec<Value>,
}

/// Words and the tools that they mean.
struct Query {
    text: String,
    right: Vec<ToolKey>,
    half: Half,
}

/// Which queries were looked at when the search was made better.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Half {
    /// Every other one, again and again.
    Tuned,
    /// The ones between, once at the beginning.
    KeptBack,
    /// Those behind [`APART`], never.
    Apart,
}

/// The line before queries that nothing was tuned to.
const APART: &str = "# Apart:";

/// What a set of servers costs.
struct Figures {
    servers: usize,
    tools: usize,
    definitions: usize,
    names: usize,
    stubs: usize,
    index: usize,
    /// For each query: definitions that a search returns.
    search_only: Vec<usize>,
    /// For each query: the call, the stubs on one line each, and the whole stub of one tool.
    discovery: Vec<usize>,
    /// The same without the whole stub.
    stubs_only: Vec<usize>,
    /// For each query: its half, and the place of the right tool from 0, if it was among the first five.
    places: Vec<(Half, Option<usize>)>,
    missed: Vec<String>,
}

impl Figures {
    /// How many of the queries of some halves have their tool among so many.
    fn found(&self, halves: &[Half], among: usize) -> String {
        let asked = self.places.iter().filter(|(half, _)| halves.contains(half));
        let found = asked.clone().filter(|(_, place)| place.is_some_and(|place| place < among));
        format!("{} of {}", found.count(), asked.count())
    }
}

struct Counter(CoreBPE);

impl Counter {
    fn count(&self, text: &str) -> usize {
        self.0.encode_ordinary(text).len()
    }

    /// What clients hand to a model of a tool: its name, description and input.
    fn definition(&self, tool: &Value) -> usize {
        let handed = json!({
            "name": tool["name"],
            "description": tool["description"],
            "input_schema": tool["inputSchema"],
        });
        self.count(&handed.to_string())
    }
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [listings, queries, tasks @ ..] = arguments.as_slice() else {
        return Err("usage: tokens LISTINGS QUERIES [TASKS]".into());
    };
    let counter = Counter(tiktoken_rs::o200k_base()?);
    let servers = read_listings(Path::new(listings))?;
    let queries = read_queries(&fs::read_to_string(queries)?)?;
    let tasks = match tasks.first() {
        Some(file) => Some(Tasks::read(&fs::read_to_string(file)?)?),
        None => None,
    };
    let fixed = match &tasks {
        Some(tasks) => tasks.fixed.iter().map(|tool| counter.definition(tool)).sum(),
        None => {
            eprintln!(
                "the tools of code mode are counted as {MOST_FIXED} tokens, the most they may cost"
            );
            MOST_FIXED
        }
    };
    for query in &queries {
        for key in &query.right {
            let known = servers.iter().any(|server| {
                server.name == key.server
                    && server.tools.iter().any(|tool| tool["name"] == *key.tool)
            });
            if !known {
                return Err(
                    format!("{}: no server lists {}.{}", query.text, key.server, key.tool).into()
                );
            }
        }
    }
    let all: Vec<&Listed> = servers.iter().collect();
    let some = |names: &[&str]| -> Vec<&Listed> {
        servers.iter().filter(|server| names.contains(&server.name.as_str())).collect()
    };
    let sets = [some(ONE), some(FIVE), all];
    let figures: Vec<Figures> = sets.iter().map(|set| measured(&counter, set, &queries)).collect();
    print_sets(&figures, fixed);
    print_servers(&counter, &servers, &queries, fixed);
    if let Some(tasks) = &tasks {
        tasks.print(&counter, &servers);
    }
    Ok(())
}

fn read_listings(directory: &Path) -> Result<Vec<Listed>> {
    let mut servers = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let mut listed: Value = serde_json::from_str(&fs::read_to_string(&path)?)?;
        let text = |key: &str| listed[key].as_str().map(str::to_owned);
        let name = text("name").ok_or_else(|| format!("{}: no name", path.display()))?;
        let (title, instructions) = (text("title"), text("instructions"));
        let Value::Array(tools) = listed["tools"].take() else {
            return Err(format!("{}: no tools", path.display()).into());
        };
        servers.push(Listed { name, title, instructions, tools });
    }
    servers.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(servers)
}

fn read_queries(text: &str) -> Result<Vec<Query>> {
    let mut queries = Vec::new();
    let (text, apart) = text.split_once(APART).unwrap_or((text, ""));
    let lines = text
        .lines()
        .map(|line| (line, false))
        .chain(apart.lines().skip(1).map(|line| (line, true)));
    for (line, apart) in lines.filter(|(line, _)| !line.starts_with('#')) {
        let (text, right) = line.split_once(" => ").ok_or_else(|| format!("no answer: {line}"))?;
        let mut keys = Vec::new();
        for name in right.split(" | ") {
            let (server, tool) = name.split_once('.').ok_or_else(|| format!("no tool: {line}"))?;
            keys.push(ToolKey { server: server.to_owned(), tool: tool.to_owned() });
        }
        let half = match (apart, queries.len() % 2) {
            (true, _) => Half::Apart,
            (false, 0) => Half::Tuned,
            (false, _) => Half::KeptBack,
        };
        queries.push(Query { text: text.to_owned(), right: keys, half });
    }
    Ok(queries)
}

fn catalog_of(servers: &[&Listed]) -> Catalog {
    Catalog::new(servers.iter().map(|server| {
        let mut listing = ServerListing::read(&server.name, &server.tools);
        listing.title.clone_from(&server.title);
        listing.instructions.clone_from(&server.instructions);
        listing
    }))
}

fn measured(counter: &Counter, servers: &[&Listed], queries: &[Query]) -> Figures {
    let catalog = catalog_of(servers);
    let observations = Observations::default();
    let policy = |key: &ToolKey| {
        let listing = catalog.find_by_key(key).map(Tool::listing);
        listing.map_or_else(|| unreachable!("{key:?}"), |tool| seeded_policy(tool, Trust::Nothing))
    };
    let tree = ToolTree::new(&catalog, &observations, &policy);
    let join = |show: &dyn Fn(&Tool) -> String| -> String {
        catalog.tools().map(|tool| show(tool) + "\n").collect()
    };
    let raw = |key: &ToolKey| {
        let server = servers.iter().find(|server| server.name == key.server);
        server.and_then(|server| server.tools.iter().find(|tool| tool["name"] == *key.tool))
    };
    let index = ToolIndex::new(&catalog);
    let mut figures = Figures {
        servers: servers.len(),
        tools: catalog.tools().count(),
        definitions: servers
            .iter()
            .flat_map(|server| &server.tools)
            .map(|tool| counter.definition(tool))
            .sum(),
        names: counter
            .count(&join(&|tool| format!("{}.{}", tool.server_identifier(), tool.identifier()))),
        stubs: counter.count(&join(&|tool| tool.line(Language::Python, None))),
        index: counter.count(&tree.read("INDEX.md").unwrap_or_default()),
        search_only: Vec::new(),
        discovery: Vec::new(),
        stubs_only: Vec::new(),
        places: Vec::new(),
        missed: Vec::new(),
    };
    let here = |key: &ToolKey| servers.iter().any(|server| server.name == key.server);
    for query in queries.iter().filter(|query| query.right.iter().any(here)) {
        let asked = ToolQuery { text: query.text.clone(), server: None, limit: MAX_HITS.min(HITS) };
        let hits: Vec<ToolHit> = index.search(&asked);
        let place = hits.iter().position(|hit| query.right.contains(&hit.key));
        let right = place.and_then(|place| hits.get(place));
        figures.places.push((query.half, place));
        if place.is_none() {
            let half = match query.half {
                Half::Tuned => "tuned",
                Half::KeptBack => "kept back",
                Half::Apart => "apart",
            };
            figures.missed.push(format!("{} ({half})", query.text));
        }
        let call = counter.count(&json!({ "query": query.text }).to_string());
        let lines = show_hits(&catalog, &hits, SearchDetail::Stub, &observations, &policy);
        let lines = counter.count(&lines.join("\n"));
        let chosen: Vec<ToolHit> = right.or(hits.first()).cloned().into_iter().collect();
        let whole = show_hits(&catalog, &chosen, SearchDetail::Full, &observations, &policy);
        let whole = counter.count(&whole.concat());
        let definitions = hits.iter().filter_map(|hit| raw(&hit.key));
        let definitions: usize = definitions.map(|tool| counter.definition(tool)).sum();
        figures.search_only.push(call + definitions);
        figures.stubs_only.push(call + lines);
        figures.discovery.push(call + lines + whole);
    }
    figures
}

fn median(numbers: &[usize]) -> usize {
    let mut sorted = numbers.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied().unwrap_or(0)
}

fn most(numbers: &[usize]) -> usize {
    numbers.iter().copied().max().unwrap_or(0)
}

/// How much less than all definitions something costs, in tenths of a hundredth.
fn saved(figures: &Figures, cost: usize) -> String {
    let share = 100.0 - cost as f64 * 100.0 / figures.definitions.max(1) as f64;
    format!("{share:.1} %")
}

fn print_sets(sets: &[Figures], fixed: usize) {
    let row = |what: &str, cell: &dyn Fn(&Figures) -> String| {
        let cells: Vec<String> = sets.iter().map(cell).collect();
        println!("| {what} | {} |", cells.join(" | "));
    };
    row("tokens (o200k)", &|set| {
        format!("{} server{}", set.servers, if set.servers == 1 { "" } else { "s" })
    });
    println!("|---|{}", "---:|".repeat(sets.len()));
    row("tools", &|set| set.tools.to_string());
    row("all definitions", &|set| set.definitions.to_string());
    row("all stubs, one line each", &|set| set.stubs.to_string());
    row("all names", &|set| set.names.to_string());
    row("index of servers", &|set| set.index.to_string());
    row("tools of code mode", &|_| fixed.to_string());
    row("search-only: definitions of five tools, median / most", &|set| {
        format!("{} / {}", median(&set.search_only), most(&set.search_only))
    });
    row("discovery, five stubs on one line each, median / most", &|set| {
        format!("{} / {}", median(&set.stubs_only), most(&set.stubs_only))
    });
    row("discovery, and the whole stub of one, median / most", &|set| {
        format!("{} / {}", median(&set.discovery), most(&set.discovery))
    });
    row("saved by one discovery, median", &|set| saved(set, median(&set.discovery)));
    row("saved, tools of code mode counted", &|set| saved(set, fixed + median(&set.discovery)));
    row("discoveries until definitions were cheaper", &|set| {
        let left = set.definitions.saturating_sub(fixed);
        (left / median(&set.discovery).max(1)).to_string()
    });
    let both = &[Half::Tuned, Half::KeptBack];
    row("right tool among the first five", &|set| set.found(both, HITS));
    row("- of the half that was tuned on", &|set| set.found(&[Half::Tuned], HITS));
    row("- of the half that was kept back", &|set| set.found(&[Half::KeptBack], HITS));
    row("right tool first", &|set| set.found(both, 1));
    row("right tool among the first five, of words that avoid its own", &|set| {
        set.found(&[Half::Apart], HITS)
    });
    for set in sets {
        for query in &set.missed {
            println!("\nnot found among {} tools: {query}", set.tools);
        }
    }
}

/// Each server alone: below the break-even its tools are cheaper as they are.
fn print_servers(counter: &Counter, servers: &[Listed], queries: &[Query], fixed: usize) {
    println!("\n| server alone | tools | definitions | code mode, one discovery | code mode |");
    println!("|---|---:|---:|---:|---|");
    for server in servers {
        let set = measured(counter, &[server], queries);
        // A server that no query means is charged for its lines.
        let discovery = if set.discovery.is_empty() { set.stubs } else { median(&set.discovery) };
        let code = fixed + discovery;
        let verdict = if code < set.definitions { "wins" } else { "loses" };
        println!("| {} | {} | {} | {code} | {verdict} |", server.name, set.tools, set.definitions);
    }
}

/// What was written and read in whole tasks.
struct Tasks {
    fixed: Vec<Value>,
    /// The servers of the middle set.
    five: Vec<String>,
    one: Vec<Task>,
    some: Vec<Task>,
    all: Vec<Task>,
    calls: Vec<Task>,
}

struct Task {
    name: String,
    turns: Vec<Turn>,
}

/// What was done, what was written for it and what was read of it.
struct Turn {
    what: String,
    written: String,
    read: String,
}

impl Tasks {
    fn read(text: &str) -> Result<Self> {
        let told: Value = serde_json::from_str(text)?;
        let tasks = |key: &str| -> Result<Vec<Task>> {
            let tasks = told[key].as_array().ok_or_else(|| format!("no tasks: {key}"))?;
            Ok(tasks.iter().map(Task::of).collect())
        };
        let texts = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Ok(Self {
            fixed: told["fixed"].as_array().cloned().unwrap_or_default(),
            five: told["five_servers"].as_array().into_iter().flatten().map(texts).collect(),
            one: tasks("one")?,
            some: tasks("five")?,
            all: tasks("all")?,
            calls: tasks("calls")?,
        })
    }

    fn print(&self, counter: &Counter, servers: &[Listed]) {
        let fixed: usize = self.fixed.iter().map(|tool| counter.definition(tool)).sum();
        println!("\nThe tools of code mode cost {fixed} tokens.");
        for (title, tasks) in
            [("its own server", &self.one), ("5 servers", &self.some), ("all servers", &self.all)]
        {
            println!(
                "\n| task, with {title} | all definitions | search-only | code mode | of it beside its tools | code mode |"
            );
            println!("|---|---:|---:|---:|---:|---|");
            for task in tasks {
                let Some(calls) = self.calls.iter().find(|calls| calls.name == task.name) else {
                    continue;
                };
                let used = |server: &Listed| {
                    let used = |turn: &Turn| turn.what.split('.').next() == Some(&server.name);
                    calls.turns.iter().any(used)
                };
                let set: Vec<&Listed> = servers
                    .iter()
                    .filter(|server| match title {
                        "all servers" => true,
                        "5 servers" => self.five.contains(&server.name),
                        _ => used(server),
                    })
                    .collect();
                let [definitions, searched, code] = self.costs(counter, &set, task, calls);
                let best = definitions.min(searched);
                let verdict = if fixed + code < best { "wins" } else { "loses" };
                println!(
                    "| {} | {definitions} | {searched} | {} | {code} | {verdict} |",
                    task.name,
                    fixed + code
                );
            }
        }
    }

    /// What a task costs with all definitions, with those that a search gives, and by code.
    fn costs(&self, counter: &Counter, set: &[&Listed], task: &Task, calls: &Task) -> [usize; 3] {
        let turns = |task: &Task| -> usize {
            let cost = |turn: &Turn| counter.count(&turn.written) + counter.count(&turn.read);
            task.turns.iter().map(cost).sum()
        };
        let all = set.iter().flat_map(|server| &server.tools);
        let definitions: usize = all.map(|tool| counter.definition(tool)).sum();
        let index = ToolIndex::new(&catalog_of(set));
        let search = self.fixed.iter().find(|tool| tool["name"] == "tool_search");
        let mut searched = search.map_or(0, |tool| counter.definition(tool));
        for turn in task.turns.iter().filter(|turn| turn.what == "search") {
            let asked: Value = serde_json::from_str(&turn.written).unwrap_or_default();
            let text = asked["query"].as_str().unwrap_or_default().to_owned();
            let hits = index.search(&ToolQuery { text, server: None, limit: HITS });
            searched += counter.count(&turn.written);
            for hit in hits {
                let server = set.iter().find(|server| server.name == hit.key.server);
                let tools = server.into_iter().flat_map(|server| &server.tools);
                let tool = tools.filter(|tool| tool["name"] == *hit.key.tool);
                searched += tool.map(|tool| counter.definition(tool)).sum::<usize>();
            }
        }
        [definitions + turns(calls), searched + turns(calls), turns(task)]
    }
}

impl Task {
    fn of(told: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let turn = |turn: &Value| Turn {
            what: text(&turn[0]),
            written: text(&turn[1]),
            read: text(&turn[2]),
        };
        let turns = told["turns"].as_array().into_iter().flatten().map(turn).collect();
        Self { name: text(&told["task"]), turns }
    }
}
