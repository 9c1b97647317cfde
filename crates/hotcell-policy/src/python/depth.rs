//! How deep code is nested, told from its tokens: the tree of deeper code could not be walked safely.

use ruff_python_ast::token::TokenKind;
use ruff_python_parser::Mode;
use ruff_python_parser::lexer::lex;

/// So deep may the parts of an expression, and blocks, lie in each other.
const MOST: u32 = 400;

/// Whether a tree of the code might be deeper than is walked. Every operator may be one level.
pub(super) fn is_too_deep(code: &str) -> bool {
    let mut lexer = lex(code, Mode::Module);
    // For each open bracket, how many operators stand in it since its last comma.
    let mut levels: Vec<u32> = vec![0];
    let mut sum = 0_u32;
    let mut blocks = 0_u32;
    loop {
        let kind = lexer.next_token();
        let top = levels.last_mut();
        if kind == TokenKind::EndOfFile {
            return false;
        } else if is_opening(kind) {
            if let Some(top) = top {
                *top += 1;
                sum += 1;
            }
            levels.push(0);
        } else if is_closing(kind) {
            if levels.len() > 1 {
                sum -= levels.pop().unwrap_or(0);
            }
        } else if kind == TokenKind::Newline {
            levels.truncate(1);
            levels[0] = 0;
            sum = 0;
        } else if kind == TokenKind::Indent {
            blocks += 1;
        } else if kind == TokenKind::Dedent {
            blocks = blocks.saturating_sub(1);
        } else if kind == TokenKind::Comma {
            if let Some(top) = top {
                sum -= *top;
                *top = 0;
            }
        } else if nests(kind)
            && let Some(top) = top
        {
            *top += 1;
            sum += 1;
        }
        if sum + blocks > MOST {
            return true;
        }
    }
}

fn is_opening(kind: TokenKind) -> bool {
    matches!(
        kind,
        TokenKind::Lpar
            | TokenKind::Lsqb
            | TokenKind::Lbrace
            | TokenKind::FStringStart
            | TokenKind::TStringStart
    )
}

fn is_closing(kind: TokenKind) -> bool {
    matches!(
        kind,
        TokenKind::Rpar
            | TokenKind::Rsqb
            | TokenKind::Rbrace
            | TokenKind::FStringEnd
            | TokenKind::TStringEnd
    )
}

/// Whether a token may put one part of an expression into another.
fn nests(kind: TokenKind) -> bool {
    !matches!(
        kind,
        TokenKind::Name
            | TokenKind::Int
            | TokenKind::Float
            | TokenKind::Complex
            | TokenKind::String
            | TokenKind::FStringMiddle
            | TokenKind::TStringMiddle
            | TokenKind::Comment
            | TokenKind::NonLogicalNewline
    )
}
