//! Commands for later: at, batch, crontab.

use super::field::Field;
use super::run::Call;
use super::{Input, Place, Walker};
use crate::finding::Dynamic;

impl Walker {
    pub(super) fn scheduled(&mut self, call: &Call<'_>, place: Place<'_>) -> Vec<Dynamic> {
        let reach = place.reach.through(call.name).reading(Input::Unknown);
        if call.name == "crontab" {
            let reads = call.args.is_empty()
                || call.args.iter().any(|arg| !arg.text.starts_with('-') || arg.is("-"));
            return if reads { vec![Dynamic::Input] } else { Vec::new() };
        }
        if call.args.iter().any(|arg| matches!(arg.find(), Some("-l" | "-d" | "-r" | "-c"))) {
            return Vec::new();
        }
        match &place.reach.input {
            Input::Text(text) => {
                let text = Field::known(text);
                self.shell_line(&text, call, Place { reach: &reach, ..place })
            }
            Input::Network => vec![Dynamic::Input, Dynamic::Network],
            Input::Unknown => vec![Dynamic::Input],
        }
    }
}
