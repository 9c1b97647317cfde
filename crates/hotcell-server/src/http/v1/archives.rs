//! `/v1/cells/{cell}/archive`.

use axum::extract::Query as QueryString;
use axum::response::Response;
use hotcell_model::{Compression, Error, FileExport, FileImport, FilesPacked};
use http::Method;
use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::download::{Download, header};
use super::{Answer, Call, ok, upload};
use crate::file_asked::{ExportFiles, ImportFiles};

/// Parameters that may be given several times.
const LISTS: [&str; 2] = ["include", "exclude"];

pub(super) async fn export(call: Call) -> Answer {
    let asked: ExportFiles = lists_query(&call)?;
    let (kind, ending) = match asked.compression {
        Compression::None => ("application/x-tar", "tar"),
        Compression::Gzip => ("application/gzip", "tar.gz"),
        Compression::Zstd => ("application/zstd", "tar.zst"),
    };
    let name = archive_name(&asked.path);
    let body = if call.head.method == Method::HEAD {
        axum::body::Body::empty()
    } else {
        Download::begin(&call, FileExport::from(asked).into(), None).await?.body()
    };
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, header(kind));
    let place = format!("attachment; filename=\"{name}.{ending}\"");
    headers.insert(CONTENT_DISPOSITION, header(&place));
    Ok(response)
}

pub(super) async fn import(mut call: Call) -> Answer {
    let asked: ImportFiles = lists_query(&call)?;
    let content = call.take_content();
    let sent = upload::send(&call, FileImport::from(asked).into(), content).await?;
    let packed: FilesPacked = sent.try_into()?;
    ok(&packed)
}

/// The name of what is packed, as far as it can stand in a header.
fn archive_name(path: &str) -> String {
    let last = path.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    match last {
        "" | "." | ".." => "workspace".to_owned(),
        name => name.chars().map(plain).collect(),
    }
}

/// What stands behind the question mark, where some of it may stand there several times.
fn lists_query<T: DeserializeOwned>(call: &Call) -> Result<T, Error> {
    let QueryString(pairs): QueryString<Vec<(String, String)>> =
        QueryString::try_from_uri(&call.head.uri)
            .map_err(|error| Error::invalid(error.body_text().replace('\n', " ")))?;
    let mut fields = Map::new();
    for (name, value) in pairs {
        if LISTS.contains(&name.as_str()) {
            let list = fields.entry(name).or_insert_with(|| Value::Array(Vec::new()));
            if let Value::Array(list) = list {
                list.push(value.into());
            }
        } else if fields.insert(name.clone(), value.into()).is_some() {
            return Err(Error::invalid(format!("{name} is given twice")));
        }
    }
    serde_json::from_value(Value::Object(fields))
        .map_err(|error| Error::invalid(format!("the query is wrong: {error}")))
}
