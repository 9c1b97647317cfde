//! A call that may have to be approved by the person at the client before it is done.

use hotcell_dialects::StartingExec;
use hotcell_model::{
    ApprovalGive, ApprovalId, ApprovalList, Asked, Caller, Error, Grant, Patience, Reply, Request,
    Result,
};
use rmcp::RoleServer;
use rmcp::model::InputResponses;
use rmcp::service::RequestContext;

use super::elicited::{self, Declined};
use super::handler::{Answered, McpHandler, is_modern};

/// What came of a call.
pub(super) enum Called {
    Done(Box<Result<Reply>>),
    /// A person has to be asked first.
    Asks(Box<Asked>),
    /// It is about an exec that the engine does not have yet.
    Starting(Box<StartingExec>),
    /// It is about all execs, with those that the engine does not have yet.
    Listed(Box<Result<Reply>>, Vec<StartingExec>),
}

impl Called {
    pub(super) fn done(answered: Result<Reply>) -> Self {
        Self::Done(Box::new(answered))
    }
}

/// Makes a call. Where the person at the client may have to approve it, that one is asked, and the
/// call made again: whether it is the very same is looked at by the engine.
pub(super) async fn perform(
    handler: &McpHandler,
    request: Request,
    answered: &Answered,
    context: &RequestContext<RoleServer>,
) -> Called {
    // A call that awaits approval is answered at once: the model learns how the user approves it.
    let caller = &Caller { patience: Patience::None, ..handler.caller.clone() };
    if !handler.elicits(context) {
        return Called::done(handler.door.call(caller, request).await);
    }
    if let Some(state) = &answered.state
        && let Err(error) = pass_on(handler, state, answered.responses.as_ref(), context).await
    {
        handler.door.refused(&error);
        return Called::done(Err(error));
    }
    let held = match handler.door.enter(caller, request.clone()).await {
        Ok(reply) => return Called::done(Ok(reply)),
        Err(error) => match &error.held {
            // The person was asked already, and left the question open.
            Some(held) if answered.state.as_deref() == Some(held.as_str()) => {
                return Called::done(Err(error));
            }
            Some(held) => ApprovalId::Held((**held).clone()),
            None => {
                handler.door.refused(&error);
                return Called::done(Err(error));
            }
        },
    };
    match ask(handler, held, context).await {
        Ok(Some(asked)) => Called::Asks(asked),
        Ok(None) => Called::done(handler.door.call(caller, request).await),
        Err(error) => Called::done(Err(error)),
    }
}

/// Asks by a request, or tells what is to be asked by an answer.
async fn ask(
    handler: &McpHandler,
    held: ApprovalId,
    context: &RequestContext<RoleServer>,
) -> Result<Option<Box<Asked>>> {
    let asked = handler.asked(held).await?;
    // Somebody may have answered by now.
    if !asked.approval.is_pending() {
        return Ok(None);
    }
    if is_modern(context) {
        return Ok(Some(Box::new(asked)));
    }
    if let Some(grant) = elicited::ask(context, &asked, handler.declined_by(context)).await {
        handler.give(&asked, grant).await?;
    }
    Ok(None)
}

/// Passes on what a person answered about a call of this caller.
async fn pass_on(
    handler: &McpHandler,
    state: &str,
    responses: Option<&InputResponses>,
    context: &RequestContext<RoleServer>,
) -> Result<()> {
    let declined = handler.declined_by(context);
    let asked = handler.asked_before(state).await?;
    let ApprovalId::Held(_) = &asked.id else { return Err(unknown_state()) };
    let answer = responses.and_then(|all| all.get(elicited::APPROVAL));
    match answer.and_then(|answer| elicited::answer_of(answer, declined)) {
        Some(grant) if asked.approval.is_pending() => handler.give(&asked, grant).await,
        Some(_) | None => Ok(()),
    }
}

pub(super) fn unknown_state() -> Error {
    Error::invalid("the request state is none that was given out")
        .hint("repeat the call without it")
}

impl McpHandler {
    /// Whether the person at the client may be asked, and can be.
    pub(super) fn elicits(&self, context: &RequestContext<RoleServer>) -> bool {
        self.door.elicits(self.at) && elicited::is_possible(context)
    }

    /// What it means that the client of a request declines to answer.
    pub(super) fn declined_by(&self, context: &RequestContext<RoleServer>) -> Declined {
        self.door.client_rules.profile(context).declined
    }

    /// What a person is asked about.
    pub(super) async fn asked(&self, id: ApprovalId) -> Result<Asked> {
        let person = elicited::person_at(&self.caller);
        let found = self.door.ask(&person, ApprovalList { id: Some(id) }).await?;
        found.approvals.into_iter().next().ok_or_else(unknown_state)
    }

    /// The same from the state that a client carried between two rounds, if this caller asked for it.
    pub(super) async fn asked_before(&self, state: &str) -> Result<Asked> {
        let id: ApprovalId = state.parse().map_err(|_| unknown_state())?;
        if !self.door.elicits(self.at) {
            return Err(unknown_state());
        }
        let asked = self.asked(id).await?;
        match asked.approval.asked_by == self.caller.principal {
            true => Ok(asked),
            false => Err(unknown_state()),
        }
    }

    /// Passes on what the person at the client answered. One who lost a race learns of it from what
    /// becomes of the call.
    pub(super) async fn give(&self, asked: &Asked, grant: Grant) -> Result<()> {
        let person = elicited::person_at(&self.caller);
        let give = ApprovalGive { id: asked.id.clone(), grant };
        match self.door.ask(&person, give).await {
            Err(error) if error.code != hotcell_model::ErrorCode::Conflict => Err(error),
            Ok(_) | Err(_) => Ok(()),
        }
    }
}
