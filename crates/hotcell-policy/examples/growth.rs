//! Prints how deciding grows with the length of a text: `growth`. Build it with `--release`.

#![expect(clippy::print_stdout, reason = "it prints its results")]

use std::hint::black_box;
use std::time::Instant;

use hotcell_policy::{Act, Policy};

/// What texts are made of that cost most.
const PARTS: &[&str] = &[
    "a;",
    "a ",
    "a|",
    "cat <<E\nx\nE\n",
    "$(a)",
    "`a`",
    "\"$x\"",
    "rm {a,b}{a,b}{a,b}{a,b}{a,b}{a,b} ",
    "alias a=b; a x;",
    "x='a[$(b)]';",
    "x=$x$x;",
    "f(){ a; };",
    "cd a;rm b;",
    "if a; then b; fi;",
    "a > b;",
    "eval \"a b\";",
    "sh -c 'a';",
    "awk '{print}' x;",
];
const PYTHON: &[&str] = &[
    "open(a)\n",
    "a = b\n",
    "import os\n",
    "f(a)\n",
    "x.y.z(1)\n",
    "def f():\n    os.remove(a)\n",
];
const SIZES: [usize; 4] = [1 << 14, 1 << 16, 1 << 18, (1 << 20) - 64];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let policy = Policy::parse(None, "careful")?;
    let row = |part: &str, decide: &dyn Fn(&str)| {
        let times = SIZES.map(|bytes| {
            let text = part.repeat(bytes / part.len());
            let start = Instant::now();
            decide(&text);
            format!("{:9.1}", start.elapsed().as_secs_f64() * 1e3)
        });
        println!("{} ms  {}", times.join(" "), part.replace('\n', "⏎"));
    };
    for part in PARTS {
        row(part, &|text| {
            black_box(policy.decide(&Act::AnyShell {
                text,
                as_root: false,
                directory: Some("/workspace"),
            }));
        });
    }
    for part in PYTHON {
        row(part, &|code| {
            black_box(policy.decide(&Act::Python {
                code,
                as_root: false,
                directory: Some("/workspace"),
            }));
        });
    }
    Ok(())
}
