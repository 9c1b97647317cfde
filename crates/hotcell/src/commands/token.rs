//! `hotcell token`: tokens of callers over HTTP.

use hotcell_model::{AccessToken, Result, Scope, Timestamp, TokenCreate, TokenRevoke, TokensList};

use crate::errors::Failure;
use crate::session::Session;
use crate::show::{Table, note, print, print_json};
use crate::token_args::{CreateToken, Lasting, TokenAction};
use crate::values::short;

/// Makes, lists or revokes.
pub(super) async fn token(session: &Session, action: TokenAction) -> Result<u8, Failure> {
    match action {
        TokenAction::Create(args) => create(session, args).await?,
        TokenAction::List { json } => {
            let listed = session.ask(TokensList).await?;
            if json {
                print_json(&listed)?;
            } else {
                print(table(&listed.tokens).to_string())?;
            }
        }
        TokenAction::Revoke { token, json } => {
            let revoked = session.ask(TokenRevoke { token }).await?;
            if json {
                print_json(&revoked)?;
            }
        }
    }
    Ok(0)
}

async fn create(session: &Session, args: CreateToken) -> Result<(), Failure> {
    let expires_at = match args.expires {
        Lasting::For(time) => Some(Timestamp::now().plus_seconds(time.as_secs().max(1))),
        Lasting::Always => None,
    };
    let request = TokenCreate {
        name: args.name,
        tenant: args.tenant.parse()?,
        role: args.role,
        scopes: (!args.scope.is_empty()).then_some(args.scope),
        expires_at,
    };
    let created = session.ask(request).await?;
    if args.json {
        return print_json(&created);
    }
    print(format!("{}\n", created.token.expose()))?;
    let AccessToken { id, name, .. } = &created.about;
    let until = match created.about.expires_at {
        Some(end) => format!("until {end}"),
        None => "until it is revoked".to_owned(),
    };
    note(&format!("token {name} ({id}) holds {until}; it is not shown again"));
    Ok(())
}

fn table(tokens: &[AccessToken]) -> Table {
    let now = Timestamp::now();
    let mut table =
        Table::new(["ID", "NAME", "TENANT", "ROLE", "SCOPES", "AGE", "LAST USED", "ENDS"]);
    for token in tokens {
        let scopes: Vec<&str> = token.scopes.iter().copied().map(Scope::as_str).collect();
        let ends = match token.expires_at {
            Some(_) if token.is_over(now) => "over".to_owned(),
            Some(end) => format!("in {}", short(now.until(end))),
            None => "never".to_owned(),
        };
        let used = token.last_used_at.map(|at| format!("{} ago", short(at.until(now))));
        table.row([
            token.id.to_string(),
            token.name.to_string(),
            token.tenant.to_string(),
            token.role.as_str().to_owned(),
            scopes.join(","),
            short(token.created_at.until(now)),
            used.unwrap_or_else(|| "-".to_owned()),
            ends,
        ]);
    }
    table
}
