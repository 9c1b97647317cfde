//! `hotcell config`: the effective values and where they came from.

use serde_json::{Map, Value, json};

use crate::args::ShowConfig;
use crate::config::Config;
use crate::errors::Failure;
use crate::show::{Table, print, print_json};

/// Shows the configuration.
pub(super) fn config(config: &Config, args: ShowConfig) -> Result<u8, Failure> {
    if args.json {
        let entries: Map<String, Value> = config
            .entries()
            .map(|(name, value, origin)| {
                (name.into_owned(), json!({ "value": value, "origin": origin.to_string() }))
            })
            .collect();
        print_json(&entries)?;
        return Ok(0);
    }
    let mut table = Table::new(["KEY", "VALUE", "ORIGIN"]);
    for (name, value, origin) in config.entries() {
        let shown = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        table.row([name.into_owned(), shown, origin.to_string()]);
    }
    print(table.to_string())?;
    Ok(0)
}
