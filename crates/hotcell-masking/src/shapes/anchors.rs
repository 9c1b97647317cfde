//! The few letters by which places are found where a secret may be, and how each is judged.

use super::names;
use super::text::Text;
use super::tokens::{self, Token};
use super::verdict::Verdict;
use super::{addresses, headers, jwt, keys};

/// How a place is judged.
#[derive(Debug, Clone, Copy)]
pub(super) enum Rule {
    Token(&'static Token),
    ModelKey,
    SendGrid,
    Jwt,
    Key,
    Address,
    Authorization,
    Bearer,
    Name,
    AfterGap,
}

impl Rule {
    /// Whether what it looks for begins with the letters that it is found by, so that these are not
    /// to be shown before it is known what follows.
    pub(super) fn holds(self) -> bool {
        match self {
            Self::Token(token) => token.shown == 0,
            Self::ModelKey | Self::SendGrid | Self::Jwt | Self::Key => true,
            Self::Address | Self::Authorization | Self::Bearer | Self::Name | Self::AfterGap => {
                false
            }
        }
    }

    /// Judges a place where letters of this length were found.
    pub(super) fn judge(
        self,
        text: &Text<'_>,
        place: usize,
        length: usize,
        others: &[Vec<u8>],
    ) -> Verdict {
        match self {
            Self::Token(token) => token.judge(text, place, length),
            Self::ModelKey => tokens::model_key(text, place, length),
            Self::SendGrid => tokens::sendgrid(text, place, length),
            Self::Jwt => jwt::judge(text, place),
            Self::Key => keys::judge(text, place, length),
            Self::Address => addresses::judge(text, place, length),
            Self::Authorization => headers::authorization(text, place + length),
            Self::Bearer => headers::bearer(text, place, length),
            Self::Name => names::judge(text, place, others),
            Self::AfterGap => tokens::after_gap(text, place),
        }
    }
}

const fn token(token: &'static Token) -> Rule {
    Rule::Token(token)
}

const SLACK_HOOK: &str = "hooks.slack.com/";
static SLACK_HOOK_TOKEN: Token = tokens::SLACK_HOOK.after(SLACK_HOOK.len());
static SAS: Token = tokens::AZURE_SAS.after("&sig=".len());

/// No letters are the beginning of others, so that no place is found twice.
pub(super) const ANCHORS: &[(&str, Rule)] = &[
    ("AKIA", token(&tokens::AWS_ID)),
    ("ASIA", token(&tokens::AWS_ID)),
    ("ABIA", token(&tokens::AWS_ID)),
    ("ACCA", token(&tokens::AWS_ID)),
    ("AIza", token(&tokens::GOOGLE_KEY)),
    ("ya29.", token(&tokens::GOOGLE_TOKEN)),
    ("GOCSPX-", token(&tokens::GOOGLE_SECRET)),
    ("ghp_", token(&tokens::GITHUB)),
    ("gho_", token(&tokens::GITHUB)),
    ("ghu_", token(&tokens::GITHUB)),
    ("ghs_", token(&tokens::GITHUB)),
    ("ghr_", token(&tokens::GITHUB)),
    ("github_pat_", token(&tokens::GITHUB_PAT)),
    ("glpat-", token(&tokens::GITLAB)),
    ("glrt-", token(&tokens::GITLAB)),
    ("gldt-", token(&tokens::GITLAB)),
    ("xoxa-", token(&tokens::SLACK)),
    ("xoxb-", token(&tokens::SLACK)),
    ("xoxe-", token(&tokens::SLACK)),
    ("xoxo-", token(&tokens::SLACK)),
    ("xoxp-", token(&tokens::SLACK)),
    ("xoxr-", token(&tokens::SLACK)),
    ("xoxs-", token(&tokens::SLACK)),
    ("xapp-", token(&tokens::SLACK)),
    (SLACK_HOOK, token(&SLACK_HOOK_TOKEN)),
    ("sk_live_", token(&tokens::STRIPE)),
    ("sk_test_", token(&tokens::STRIPE)),
    ("rk_live_", token(&tokens::STRIPE)),
    ("rk_test_", token(&tokens::STRIPE)),
    ("whsec_", token(&tokens::STRIPE_HOOK)),
    ("sk-", Rule::ModelKey),
    ("npm_", token(&tokens::NPM)),
    ("pypi-", token(&tokens::PYPI)),
    ("hf_", token(&tokens::HUGGING_FACE)),
    ("hc_", token(&tokens::HOTCELL)),
    ("SG.", Rule::SendGrid),
    ("dop_v1_", token(&tokens::DIGITAL_OCEAN)),
    ("doo_v1_", token(&tokens::DIGITAL_OCEAN)),
    ("dor_v1_", token(&tokens::DIGITAL_OCEAN)),
    ("SK0", token(&tokens::TWILIO)),
    ("SK1", token(&tokens::TWILIO)),
    ("SK2", token(&tokens::TWILIO)),
    ("SK3", token(&tokens::TWILIO)),
    ("SK4", token(&tokens::TWILIO)),
    ("SK5", token(&tokens::TWILIO)),
    ("SK6", token(&tokens::TWILIO)),
    ("SK7", token(&tokens::TWILIO)),
    ("SK8", token(&tokens::TWILIO)),
    ("SK9", token(&tokens::TWILIO)),
    ("SKa", token(&tokens::TWILIO)),
    ("SKb", token(&tokens::TWILIO)),
    ("SKc", token(&tokens::TWILIO)),
    ("SKd", token(&tokens::TWILIO)),
    ("SKe", token(&tokens::TWILIO)),
    ("SKf", token(&tokens::TWILIO)),
    ("AGE-SECRET-KEY-1", token(&tokens::AGE)),
    ("&sig=", token(&SAS)),
    ("?sig=", token(&SAS)),
    ("eyJ", Rule::Jwt),
    ("-----BEGIN ", Rule::Key),
    ("://", Rule::Address),
    ("uthorization", Rule::Authorization),
    ("UTHORIZATION", Rule::Authorization),
    ("earer ", Rule::Bearer),
    ("EARER ", Rule::Bearer),
    ("assw", Rule::Name),
    ("assW", Rule::Name),
    ("ASSW", Rule::Name),
    ("assp", Rule::Name),
    ("ASSP", Rule::Name),
    ("assc", Rule::Name),
    ("ASSC", Rule::Name),
    ("_pass", Rule::Name),
    ("_PASS", Rule::Name),
    ("_pwd", Rule::Name),
    ("_PWD", Rule::Name),
    ("_auth", Rule::Name),
    ("_AUTH", Rule::Name),
    ("cret", Rule::Name),
    ("CRET", Rule::Name),
    ("oken", Rule::Name),
    ("OKEN", Rule::Name),
    ("_key", Rule::Name),
    ("_KEY", Rule::Name),
    ("-key", Rule::Name),
    ("-Key", Rule::Name),
    ("-KEY", Rule::Name),
    ("Key", Rule::Name),
    ("ikey", Rule::Name),
    ("IKEY", Rule::Name),
    ("sskey", Rule::Name),
    ("SSKEY", Rule::Name),
    ("redential", Rule::Name),
    ("REDENTIAL", Rule::Name),
];
