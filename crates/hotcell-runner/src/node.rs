//! The runner for JavaScript: its text and its command line. It has the descriptors of the one for
//! Python, but for its order, whose number is its argument.

/// The descriptor of the program that reads scripts, where one is started.
pub const READER: i32 = 7;

/// What `load` imports is found from the working directory.
const BOOT: &str = r#"const load=(name,how)=>how?import(name,how):import(name);require("vm").compileFunction(require("fs").readFileSync(6,"utf8"),["require","load"],{filename:"hotcell:runner"})(require,load)"#;

const TEXT: &str = concat!(
    "\"use strict\";\n",
    include_str!("node/values.js"),
    include_str!("node/failure.js"),
    include_str!("node/tools.js"),
    include_str!("node/main.js"),
);

/// The text of the runner, for [`crate::SOURCE`].
#[must_use]
pub fn script_source() -> &'static str {
    TEXT
}

/// What follows the path of node on its command line; the number of the order's descriptor comes after it.
#[must_use]
pub fn script_arguments() -> [&'static str; 4] {
    ["--experimental-vm-modules", "--input-type=commonjs", "-e", BOOT]
}
