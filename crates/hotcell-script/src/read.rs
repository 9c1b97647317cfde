//! From a text as it was written to a module of JavaScript that exports its last value.

use std::path::{Path, PathBuf};

use hotcell_runner::{Inserted, Places};
use oxc_allocator::Allocator;
use oxc_ast::ast::Statement;
use oxc_codegen::{Codegen, CodegenOptions};
use oxc_parser::Parser;
use oxc_semantic::SemanticBuilder;
use oxc_span::{GetSpan, SourceType};
use oxc_transformer::{TransformOptions, Transformer};

use crate::Fault;

/// The name under which the last value is exported.
pub const LAST_VALUE: &str = "_hotcell_last_value_";

/// What a text is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// A module of JavaScript.
    JavaScript,
    /// A module of TypeScript.
    TypeScript,
}

impl Language {
    fn kind(self) -> SourceType {
        match self {
            Self::JavaScript => SourceType::mjs(),
            Self::TypeScript => SourceType::ts().with_module(true),
        }
    }
}

/// A text that node can run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    /// The module.
    pub code: String,
    /// Where its parts stood in what was written; `None` where every line is as it was.
    pub map: Option<Places>,
    /// What was put into what was written to keep its last value.
    pub inserted: Option<Inserted>,
}

/// Reads a text.
///
/// # Errors
/// The first thing that is wrong with it. What node alone finds wrong is not looked for.
pub fn read(source: &str, language: Language) -> Result<Script, Fault> {
    let (code, inserted) = keep_last_value(source, language)?;
    match language {
        Language::JavaScript => Ok(Script { code, map: None, inserted }),
        Language::TypeScript => {
            let (code, map) = without_types(&code)?;
            Ok(Script { code, map, inserted })
        }
    }
}

/// The text with its last expression exported, every line where it was. A promise is waited for.
fn keep_last_value(source: &str, language: Language) -> Result<(String, Option<Inserted>), Fault> {
    let allocator = Allocator::default();
    let parsed = Parser::new(&allocator, source, language.kind()).parse();
    if let Some(fault) = Fault::first(source, &parsed.diagnostics) {
        return Err(fault);
    }
    let known = SemanticBuilder::new().with_check_syntax_error(true).build(&parsed.program);
    if let Some(fault) = Fault::first(source, &known.diagnostics) {
        return Err(fault);
    }
    let last = match parsed.program.body.last() {
        Some(Statement::ExpressionStatement(last)) => last.expression.span(),
        Some(_) => return Ok((source.to_owned(), None)),
        // A text alone is also an expression.
        None => match parsed.program.directives.last() {
            Some(last) => last.expression.span,
            None => return Ok((source.to_owned(), None)),
        },
    };
    let (start, end) = (last.start as usize, last.end as usize);
    let (Some(before), Some(value), Some(after)) =
        (source.get(..start), source.get(start..end), source.get(end..))
    else {
        return Ok((source.to_owned(), None));
    };
    let put = format!("export const {LAST_VALUE} = await (");
    let line = before.matches('\n').count() + 1;
    let begin = before.rfind('\n').map_or(0, |at| at + 1);
    let inserted = Inserted {
        line: line as u32,
        column: before[begin..].encode_utf16().count() as u32 + 1,
        length: put.len() as u32,
    };
    Ok((format!("{before}{put}{value}){after}"), Some(inserted)))
}

fn without_types(text: &str) -> Result<(String, Option<Places>), Fault> {
    let allocator = Allocator::default();
    let parsed = Parser::new(&allocator, text, Language::TypeScript.kind()).parse();
    if let Some(fault) = Fault::first(text, &parsed.diagnostics) {
        return Err(fault);
    }
    let mut program = parsed.program;
    let known =
        SemanticBuilder::new().with_excess_capacity(2.0).with_enum_eval(true).build(&program);
    let options = TransformOptions::default();
    let done = Transformer::new(&allocator, Path::new("code.ts"), &options)
        .build_with_scoping(known.semantic.into_scoping(), &mut program);
    if let Some(fault) = Fault::first(text, &done.diagnostics) {
        return Err(fault);
    }
    let options = CodegenOptions {
        source_map_path: Some(PathBuf::from("code.ts")),
        ..CodegenOptions::default()
    };
    let made = Codegen::new().with_options(options).build(&program);
    let map = made.map.map(|map| {
        let mut places: Places = Vec::new();
        for token in map.get_tokens() {
            let line = token.get_dst_line() as usize;
            if places.len() <= line {
                places.resize_with(line + 1, Vec::new);
            }
            places[line].push([token.get_dst_col(), token.get_src_line(), token.get_src_col()]);
        }
        places
    });
    Ok((made.code, map))
}
