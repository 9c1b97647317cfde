//! Whether a body is one message of JSON-RPC: what is not is answered as JSON-RPC says.

use std::fmt;

use rmcp::ErrorData;
use rmcp::model::{NumberOrString, RequestId};
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};

/// What a message is, as far as it has to be known before it is passed on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Message {
    /// It is to be answered.
    Request {
        /// Under which id.
        id: RequestId,
        /// What is asked for.
        method: String,
    },
    /// It is not to be answered: a notification, or an answer itself.
    Other,
}

/// A body that is no message.
#[derive(Debug)]
pub(super) struct Malformed {
    pub(super) error: ErrorData,
    pub(super) id: Option<RequestId>,
}

/// What a body holds.
///
/// # Errors
/// It is not JSON, or not one message of JSON-RPC 2.0.
pub(super) fn read(body: &[u8]) -> Result<Message, Malformed> {
    let unreadable =
        |message: String| Malformed { error: ErrorData::parse_error(message, None), id: None };
    let text = std::str::from_utf8(body)
        .map_err(|error| unreadable(format!("the body is not UTF-8: {error}")))?;
    let top: Top = serde_json::from_str(text)
        .map_err(|error| unreadable(format!("the body is not valid JSON: {error}")))?;
    let parts = match top {
        Top::Object(parts) => parts,
        Top::Array => return Err(wrong("batches are not supported: send one message", None)),
        Top::Other => return Err(wrong("a message is an object", None)),
    };
    let id = match parts.id {
        Id::Absent => None,
        Id::Known(id) => Some(id),
        Id::Wrong => return Err(wrong("the id is neither a string nor a whole number", None)),
    };
    if !parts.is_version_2 {
        return Err(wrong("jsonrpc is not \"2.0\"", id));
    }
    match (parts.method, id) {
        (Method::Named(method), Some(id)) => Ok(Message::Request { id, method }),
        (Method::Named(_), None) => Ok(Message::Other),
        (Method::Wrong, id) => Err(wrong("the method is not a string", id)),
        (Method::Absent, _) if parts.answers => Ok(Message::Other),
        (Method::Absent, id) => Err(wrong("there is neither a method nor a result", id)),
    }
}

fn wrong(message: &'static str, id: Option<RequestId>) -> Malformed {
    Malformed { error: ErrorData::invalid_request(message, None), id }
}

/// The outermost value.
enum Top {
    Object(Parts),
    Array,
    Other,
}

/// What of a message is looked at.
#[derive(Default)]
struct Parts {
    is_version_2: bool,
    id: Id,
    method: Method,
    answers: bool,
}

#[derive(Default)]
enum Id {
    #[default]
    Absent,
    Known(RequestId),
    Wrong,
}

#[derive(Default)]
enum Method {
    #[default]
    Absent,
    Named(String),
    Wrong,
}

impl<'de> Deserialize<'de> for Top {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TopVisitor)
    }
}

struct TopVisitor;

macro_rules! visit_plain {
    ($made:expr; $($visit:ident: $value:ty),+ $(,)?) => {
        $(fn $visit<E>(self, _: $value) -> Result<Self::Value, E> { Ok($made) })+
        fn visit_unit<E>(self) -> Result<Self::Value, E> { Ok($made) }
    };
}

impl<'de> Visitor<'de> for TopVisitor {
    type Value = Top;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a message of JSON-RPC")
    }

    visit_plain!(Top::Other; visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_f64: f64, visit_str: &str);

    fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<Top, A::Error> {
        while values.next_element::<Anything>()?.is_some() {}
        Ok(Top::Array)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Top, A::Error> {
        let mut parts = Parts::default();
        let mut seen = Vec::new();
        while let Some(key) = entries.next_key::<String>()? {
            match key.as_str() {
                "jsonrpc" => parts.is_version_2 = entries.next_value::<Scalar>()?.is("2.0"),
                "id" => parts.id = entries.next_value::<Scalar>()?.into_id(),
                "method" => {
                    parts.method = match entries.next_value::<Scalar>()? {
                        Scalar::Text(method) => Method::Named(method),
                        Scalar::Number(_) | Scalar::Other => Method::Wrong,
                    };
                }
                name => {
                    parts.answers |= matches!(name, "result" | "error");
                    entries.next_value::<Anything>()?;
                }
            }
            if seen.contains(&key) {
                return Err(A::Error::custom(format_args!("the key {key:?} stands there twice")));
            }
            seen.push(key);
        }
        Ok(Top::Object(parts))
    }
}

/// A value that is text, a whole number, or something else.
enum Scalar {
    Text(String),
    Number(i64),
    Other,
}

impl Scalar {
    fn is(&self, wanted: &str) -> bool {
        matches!(self, Self::Text(text) if text == wanted)
    }

    fn into_id(self) -> Id {
        match self {
            Self::Text(text) => Id::Known(NumberOrString::String(text.into())),
            Self::Number(number) => Id::Known(NumberOrString::Number(number)),
            Self::Other => Id::Wrong,
        }
    }
}

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ScalarVisitor)
    }
}

struct ScalarVisitor;

impl<'de> Visitor<'de> for ScalarVisitor {
    type Value = Scalar;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    visit_plain!(Scalar::Other; visit_bool: bool, visit_f64: f64);

    fn visit_i64<E>(self, value: i64) -> Result<Scalar, E> {
        Ok(Scalar::Number(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Scalar, E> {
        Ok(i64::try_from(value).map_or(Scalar::Other, Scalar::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Scalar, E> {
        Ok(Scalar::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<Scalar, A::Error> {
        while values.next_element::<Anything>()?.is_some() {}
        Ok(Scalar::Other)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Scalar, A::Error> {
        while entries.next_entry::<Anything, Anything>()?.is_some() {}
        Ok(Scalar::Other)
    }
}

/// Any value, looked through to its end, so that it is known to be valid and not too deep, and
/// forgotten. serde's own `IgnoredAny` does not count how deep it goes.
struct Anything;

impl<'de> Deserialize<'de> for Anything {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnythingVisitor)
    }
}

struct AnythingVisitor;

impl<'de> Visitor<'de> for AnythingVisitor {
    type Value = Anything;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    visit_plain!(Anything; visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_f64: f64, visit_str: &str);

    fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<Anything, A::Error> {
        while values.next_element::<Anything>()?.is_some() {}
        Ok(Anything)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Anything, A::Error> {
        while entries.next_entry::<Anything, Anything>()?.is_some() {}
        Ok(Anything)
    }
}
