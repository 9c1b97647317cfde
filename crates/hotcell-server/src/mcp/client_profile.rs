//! What is known of MCP clients: which part of a result they show their model, and how long they wait.

use hotcell_dialects::ClientTerms;
use rmcp::RoleServer;
use rmcp::model::CallToolResult;
use rmcp::service::RequestContext;

use super::elicited::Declined;

/// What results consist of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResultForm {
    /// Text and images: complete, and the smallest form for a model.
    Text,
    /// The same, and structured content with its schema, for programs.
    Both,
}

/// What the operator decided for all clients; what is `None` depends on the client.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ClientRules {
    /// What results consist of.
    pub form: Option<ResultForm>,
    /// How long calls wait.
    pub terms: ClientTerms,
}

/// How one client is served.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ClientProfile {
    pub(super) form: ResultForm,
    pub(super) terms: ClientTerms,
    /// What it means that it declines to answer a question.
    pub(super) declined: Declined,
}

/// A client by the beginning of its name.
struct Known {
    name: &'static str,
    form: ResultForm,
    terms: ClientTerms,
}

/// Clients that put results before a model as they come. Some of them (Claude Code, Codex) show
/// structured content instead of text where there is any, and then drop images; Qwen shows both.
const AGENTS: &[&str] = &[
    "claude-code",
    "claude-ai",
    "codex",
    "gemini-cli",
    "qwen",
    "opencode",
    "cursor",
    "Visual Studio Code",
    "pydantic-ai",
    "mastra",
];

const NO_TERMS: ClientTerms = ClientTerms { wait_s: None, most_wait_s: None };

/// Clients that decline questions without showing them if they run without a person. Codex does with
/// the approval policy `never`, which it does not tell servers.
const DECLINES_UNASKED: &[&str] = &["codex"];

/// The name that the Python SDK gives itself. Frameworks on it (openai-agents) give up after 5
/// seconds, whatever progress they receive; the model then never learns the exec's id.
const PYTHON_SDK: Known = Known {
    name: "mcp",
    form: ResultForm::Both,
    terms: ClientTerms { wait_s: Some(4.0), most_wait_s: Some(4.0) },
};

impl ClientRules {
    /// How a request's client is served.
    pub(super) fn profile(self, context: &RequestContext<RoleServer>) -> ClientProfile {
        self.profile_of(context.client_info().map(|info| info.name).as_deref())
    }

    fn profile_of(self, name: Option<&str>) -> ClientProfile {
        let known = find(name.unwrap_or_default());
        let wait_s = self.terms.wait_s.or(known.terms.wait_s);
        let most_wait_s = match self.terms {
            // An operator who sets the wait knows the clients.
            ClientTerms { wait_s: Some(_), most_wait_s: None } => None,
            set => set.most_wait_s.or(known.terms.most_wait_s),
        };
        let form = self.form.unwrap_or(known.form);
        let declined = match is_one_of(DECLINES_UNASKED, name.unwrap_or_default()) {
            true => Declined::Unasked,
            false => Declined::ByPerson,
        };
        ClientProfile { form, terms: ClientTerms { wait_s, most_wait_s }, declined }
    }
}

/// Whether a name begins like one of these.
fn is_one_of(clients: &[&str], name: &str) -> bool {
    clients.iter().any(|client| {
        name.get(..client.len()).is_some_and(|start| start.eq_ignore_ascii_case(client))
    })
}

fn find(name: &str) -> Known {
    if name == PYTHON_SDK.name {
        return PYTHON_SDK;
    }
    let form = match is_one_of(AGENTS, name) {
        true => ResultForm::Text,
        false => ResultForm::Both,
    };
    Known { name: "", form, terms: NO_TERMS }
}

impl ClientProfile {
    /// A result in the form for this client.
    pub(super) fn fit(&self, result: &mut CallToolResult) {
        if self.form == ResultForm::Text && !result.content.is_empty() {
            result.structured_content = None;
            // Some of them would show an error a second time from there.
            result.meta = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(rules: ClientRules, name: &str) -> (ResultForm, Option<f64>, Option<f64>) {
        let ClientProfile { form, terms, .. } = rules.profile_of(Some(name));
        (form, terms.wait_s, terms.most_wait_s)
    }

    #[test]
    fn agents_get_text_and_programs_get_both() {
        let rules = ClientRules::default();
        for name in ["claude-code", "codex-mcp-client", "gemini-cli-mcp-client-x", "Qwen-code"] {
            assert_eq!(profile(rules, name), (ResultForm::Text, None, None), "{name}");
        }
        for name in ["", "my-program", "inspector-client", "cod"] {
            assert_eq!(profile(rules, name), (ResultForm::Both, None, None), "{name}");
        }
        assert_eq!(profile(rules, "mcp"), (ResultForm::Both, Some(4.0), Some(4.0)));
    }

    #[test]
    fn what_codex_declines_may_not_have_been_shown() {
        let declined = |name: &str| ClientRules::default().profile_of(Some(name)).declined;
        assert_eq!(declined("codex-mcp-client"), Declined::Unasked);
        for name in ["claude-code", "mcp", "", "Visual Studio Code"] {
            assert_eq!(declined(name), Declined::ByPerson, "{name}");
        }
    }

    #[test]
    fn the_operator_decides_for_all_clients() {
        let terms = ClientTerms { wait_s: Some(30.0), most_wait_s: None };
        let rules = ClientRules { form: Some(ResultForm::Both), terms };
        for name in ["claude-code", "mcp", "other"] {
            assert_eq!(profile(rules, name), (ResultForm::Both, Some(30.0), None), "{name}");
        }
        let terms = ClientTerms { wait_s: None, most_wait_s: Some(9.0) };
        let rules = ClientRules { form: None, terms };
        assert_eq!(profile(rules, "mcp"), (ResultForm::Both, Some(4.0), Some(9.0)));
    }
}
