//! What has to be approved waits, is done once, and only as it was approved.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use hotcell_ledger::ChainedLedger;
use hotcell_model::{
    Alias, ApprovalGive, ApprovalId, ApprovalList, ApprovalVerdict, Asked, AuditQuery, Caller,
    Cell, CellAdopt, CellKill, CellList, CellRef, CellSpawn, Command, Detail, EntryKind, Error,
    ErrorCode, ExecRun, FileCall, FileRead, FileWrite, Grant, HeldId, Keep, KillWait, Patience,
    Result, Role, Scope, SecretSet, SecretValue, Timestamp, Verdict,
};
use hotcell_policy::{Policy, PolicyError};

use crate::recorded_tests::settings;
use crate::testing::{House, ask, persistent};
use crate::testing_ledger::TestLedger;
use crate::{Engine, Policies, PolicyUse, digest};

const ASK_SPAWN: &str = "[[rule]]\nid = \"spawns\"\nverdict = \"ask\"\ntool = \"cell_spawn\"\n";
const LONG: Duration = Duration::from_secs(3600);

/// Rules that a test changes.
#[derive(Debug)]
struct Changing(Mutex<Arc<Policy>>);

impl Changing {
    fn new(rules: &str) -> Arc<Self> {
        Arc::new(Self(Mutex::new(parse(rules))))
    }

    fn become_now(&self, rules: &str) {
        *self.0.lock().unwrap() = parse(rules);
    }
}

fn parse(rules: &str) -> Arc<Policy> {
    Arc::new(Policy::parse(Some(rules), "open").unwrap())
}

impl Policies for Changing {
    fn in_force(&self) -> Arc<Policy> {
        Arc::clone(&self.0.lock().unwrap())
    }

    fn by_profile(&self, profile: &str) -> std::result::Result<Policy, PolicyError> {
        Policy::parse(None, profile)
    }
}

fn ledger(house: &House) -> ChainedLedger {
    ChainedLedger::new(settings(house))
}

/// An engine of a server, as another process would have it.
fn judging(house: &House, rules: &Arc<Changing>, within: Duration) -> Engine {
    let mut engine = house.engine();
    engine.keep_ledger_in(Arc::new(ledger(house))).unwrap();
    let rules = Arc::clone(rules) as Arc<dyn Policies>;
    engine.judge_by(rules, PolicyUse::Enforced, within).unwrap();
    engine
}

fn agent() -> Caller {
    Caller::local(7).in_role(Role::Agent)
}

fn operator() -> Caller {
    Caller::of("token:ops".to_owned(), Role::Operator)
}

fn impatient(caller: Caller) -> Caller {
    Caller { patience: Patience::None, ..caller }
}

fn spawn(alias: &str) -> CellSpawn {
    let alias: Alias = alias.parse().unwrap();
    CellSpawn { alias: Some(alias), keep: Keep::Always, ..CellSpawn::default() }
}

/// Makes a call that is held, without waiting.
async fn held(engine: &Engine, caller: Caller, request: CellSpawn) -> HeldId {
    let error = engine.ask(&impatient(caller), request).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::Timeout, "{error:?}");
    *error.held.unwrap()
}

async fn give(engine: &Engine, caller: &Caller, held: &HeldId, grant: Grant) -> Result<Asked> {
    let id = ApprovalId::Held(held.clone());
    engine.ask(caller, ApprovalGive { id, grant }).await.map(|asked| *asked)
}

async fn waiting(engine: &Engine) -> Vec<Asked> {
    engine.ask(&operator(), ApprovalList::default()).await.unwrap().approvals
}

async fn cells(engine: &Engine) -> Vec<Cell> {
    ask(engine, CellList { include_stopped: true }).await.unwrap().cells
}

/// The only held call that waits, as soon as there is one.
async fn only_waiting(engine: &Engine) -> HeldId {
    loop {
        if let [Asked { id: ApprovalId::Held(held), .. }] = waiting(engine).await.as_slice() {
            return held.clone();
        }
        tokio::task::yield_now().await;
    }
}

/// What the ledger says of held calls: what happened, by whom, and what was decided.
async fn told(engine: &Engine) -> Vec<(String, String, Option<Verdict>)> {
    let query = AuditQuery { limit: 1000, ..AuditQuery::default() };
    let entries = ask(engine, query).await.unwrap().entries;
    entries
        .into_iter()
        .filter(|it| matches!(it.kind, EntryKind::Decision | EntryKind::Approval))
        .map(|it| (it.what, it.principal, it.verdict))
        .collect()
}

fn refusal<T: std::fmt::Debug>(result: Result<T>, code: ErrorCode) -> Error {
    let error = result.unwrap_err();
    assert_eq!(error.code, code, "{error:?}");
    error
}

#[tokio::test]
async fn a_call_waits_until_it_is_approved_and_is_in_the_ledger() {
    let (house, rules) = (House::new(), Changing::new(ASK_SPAWN));
    let (server, other) = (judging(&house, &rules, LONG), judging(&house, &rules, LONG));
    let caller = agent();
    let (made, ()) = tokio::join!(server.ask(&caller, spawn("work")), async {
        let held = only_waiting(&other).await;
        assert!(cells(&other).await.is_empty());
        let asked = give(&other, &operator(), &held, Grant::Approve).await.unwrap();
        let answer = asked.approval.answer.unwrap();
        assert_eq!((answer.verdict, answer.by.as_str()), (ApprovalVerdict::Granted, "token:ops"));
    });
    assert_eq!(made.unwrap().alias.unwrap().as_str(), "work");
    assert!(waiting(&server).await.is_empty());
    let entry = |what: &str, who: &str, verdict| (what.to_owned(), who.to_owned(), Some(verdict));
    let expected = [
        entry("cell_spawn", "local:7", Verdict::Asked),
        ("answering".to_owned(), "token:ops".to_owned(), None),
        entry("granted", "token:ops", Verdict::Allowed),
        entry("used", "local:7", Verdict::Allowed),
    ];
    assert_eq!(told(&server).await, expected);
}

#[tokio::test]
async fn a_word_that_cannot_be_written_down_does_not_count() {
    let (house, rules) = (House::new(), Changing::new(ASK_SPAWN));
    let server = judging(&house, &rules, LONG);
    let id = held(&server, agent(), spawn("work")).await;
    for (kind, code) in
        [(EntryKind::Approval, Some(ErrorCode::Unavailable)), (EntryKind::Egress, None)]
    {
        let mut engine = house.engine();
        engine.keep_ledger_in(Arc::new(TestLedger::without(ledger(&house), kind))).unwrap();
        let given = give(&engine, &operator(), &id, Grant::Approve).await;
        assert_eq!(given.err().map(|error| error.code), code);
        assert_eq!(waiting(&server).await.len(), usize::from(code.is_some()));
    }
}

#[tokio::test]
async fn a_person_is_told_what_is_asked_for() {
    let (house, rules) = (House::new(), Changing::new(ASK_SPAWN));
    let server = judging(&house, &rules, LONG);
    let mut request = spawn("work");
    request.env.insert("API_TOKEN".to_owned(), "hunter2hunter2".to_owned());
    request.env.insert("COLOR".to_owned(), "red".to_owned());
    held(&server, agent(), request).await;
    let asked = waiting(&server).await.remove(0);
    assert_eq!((asked.tool.as_str(), asked.approval.rule.as_str()), ("cell_spawn", "spawns"));
    assert_eq!(asked.what, "make the cell work from the image host");
    let text = asked.to_string();
    assert!(text.contains("env COLOR: red") && text.contains("asks spawns"), "{text}");
    assert!(text.contains("env API_TOKEN: [REDACTED") && !text.contains("hunter2"), "{text}");
}

#[tokio::test]
async fn what_is_refused_stays_so_until_its_deadline() {
    let (house, rules) = (House::new(), Changing::new(ASK_SPAWN));
    let server = judging(&house, &rules, LONG);
    let id = held(&server, agent(), spawn("work")).await;
    give(&server, &operator(), &id, Grant::Refuse).await.unwrap();
    for _ in 0..2 {
        let error = refusal(server.ask(&agent(), spawn("work")).await, ErrorCode::Denied);
        assert!(error.message.contains("refused by token:ops"), "{error:?}");
    }
    refusal(give(&server, &operator(), &id, Grant::Approve).await, ErrorCode::Conflict);
    // Anything else asks for itself.
    assert_ne!(held(&server, agent(), spawn("other")).await, id);
    assert!(cells(&server).await.is_empty());
}

#[tokio::test]
async fn what_nobody_answers_is_refused_at_its_deadline() {
    let (house, rules) = (House::new(), Changing::new(ASK_SPAWN));
    let server = judging(&house, &rules, Duration::from_millis(300));
    let error = refusal(server.ask(&agent(), spawn("work")).await, ErrorCode::Denied);
    assert!(error.message.contains("nobody approved it"), "{error:?}");
    // One that nobody waits for expires as well, and no word counts after that.
    let id = held(&server, agent(), spawn("work")).await;
    let ApprovalId::Held(_) = &waiting(&server).await[0].id else { panic!("it is held") };
    tokio::time::sleep(Duration::from_millis(350)).await;
    let error = refusal(give(&server, &operator(), &id, Grant::Approve).await, ErrorCode::Conflict);
    assert!(error.message.contains("expired by deadline"), "{error:?}");
    let told = told(&server).await;
    assert_eq!(told.iter().filter(|(what, ..)| what == "expired").count(), 2, "{told:?}");
    assert!(cells(&server).await.is_empty());
    // The control: asked for anew it can be approved.
    let server = judging(&house, &rules, LONG);
    let id = held(&server, agent(), spawn("work")).await;
    give(&server, &operator(), &id, Grant::Approve).await.unwrap();
    server.ask(&agent(), spawn("work")).await.unwrap();
}

#[tokio::test]
async fn an_approval_is_for_one_caller_and_one_request() {
    let (house, rules) = (House::new(), Changing::new(ASK_SPAWN));
    let server = judging(&house, &rules, LONG);
    let id = held(&server, agent(), spawn("work")).await;
    assert_eq!(held(&server, agent(), spawn("work")).await, id);
    give(&server, &operator(), &id, Grant::Approve).await.unwrap();
    let mut more = spawn("work");
    more.env.insert("X".to_owned(), "1".to_owned());
    let others = [
        (Caller::local(8).in_role(Role::Agent), spawn("work")),
        (agent().in_tenant("theirs".parse().unwrap()), spawn("work")),
        (agent(), more),
    ];
    for (caller, request) in others {
        assert_ne!(held(&server, caller, request).await, id);
    }
    assert!(cells(&server).await.is_empty());
    server.ask(&agent(), spawn("work")).await.unwrap();
    // It is used up.
    assert_ne!(held(&server, agent(), spawn("work")).await, id);
}

#[tokio::test]
async fn an_approval_outlives_whoever_asked_and_whoever_gave_it() {
    let (house, rules) = (House::new(), Changing::new(ASK_SPAWN));
    let id = held(&judging(&house, &rules, LONG), agent(), spawn("work")).await;
    give(&judging(&house, &rules, LONG), &operator(), &id, Grant::Approve).await.unwrap();
    judging(&house, &rules, LONG).ask(&impatient(agent()), spawn("work")).await.unwrap();
}

#[tokio::test]
async fn an_approval_that_was_used_before_the_deed_is_gone() {
    let (house, rules) = (House::new(), Changing::new(ASK_SPAWN));
    let server = judging(&house, &rules, LONG);
    let id = held(&server, agent(), spawn("work")).await;
    give(&server, &operator(), &id, Grant::Approve).await.unwrap();
    // As by a process that dies right after it.
    assert!(server.site().store.use_held(&id, Timestamp::now()).await.unwrap());
    assert_ne!(held(&judging(&house, &rules, LONG), agent(), spawn("work")).await, id);
    assert!(cells(&server).await.is_empty());
}

#[tokio::test]
async fn of_two_that_make_the_same_call_one_is_let_through() {
    let (house, rules) = (House::new(), Changing::new(ASK_SPAWN));
    let (one, two) = (judging(&house, &rules, LONG), judging(&house, &rules, LONG));
    let caller = agent();
    // Names would make the second spawn a conflict.
    let nameless = || CellSpawn { keep: Keep::Always, ..CellSpawn::default() };
    let id = held(&one, agent(), nameless()).await;
    let both = async {
        tokio::select! {
            first = one.ask(&caller, nameless()) => first,
            second = two.ask(&caller, nameless()) => second,
        }
    };
    let (made, ()) = tokio::join!(both, async {
        give(&two, &operator(), &id, Grant::Approve).await.unwrap();
    });
    made.unwrap();
    // The one that was left asks anew, and is not done.
    assert_ne!(held(&one, agent(), nameless()).await, id);
    assert_eq!(cells(&one).await.len(), 1);
}

#[tokio::test]
async fn rules_that_deny_by_now_are_stronger_than_a_word() {
    let (house, rules) = (House::new(), Changing::new(ASK_SPAWN));
    let server = judging(&house, &rules, LONG);
    let caller = agent();
    let deny = ASK_SPAWN.replace("\"ask\"", "\"deny\"");
    let (made, ()) = tokio::join!(server.ask(&caller, spawn("work")), async {
        let id = only_waiting(&server).await;
        rules.become_now(&deny);
        give(&server, &operator(), &id, Grant::Approve).await.unwrap();
    });
    refusal(made, ErrorCode::Denied);
    refusal(server.ask(&agent(), spawn("work")).await, ErrorCode::Denied);
    assert!(cells(&server).await.is_empty());
    // The control: as the rules were, the word would have counted.
    rules.become_now(ASK_SPAWN);
    server.ask(&impatient(agent()), spawn("work")).await.unwrap();
}

#[tokio::test]
async fn with_the_index_every_approval_is_lost() {
    let (house, rules) = (House::new(), Changing::new(ASK_SPAWN));
    let server = judging(&house, &rules, LONG);
    let id = held(&server, agent(), spawn("work")).await;
    give(&server, &operator(), &id, Grant::Approve).await.unwrap();
    house.delete_index();
    let server = judging(&house, &rules, LONG);
    assert_ne!(held(&server, agent(), spawn("work")).await, id);
    refusal(give(&server, &operator(), &id, Grant::Approve).await, ErrorCode::NotFound);
}

#[tokio::test]
async fn nobody_approves_what_they_asked_for() {
    let (house, rules) = (House::new(), Changing::new(ASK_SPAWN));
    let server = judging(&house, &rules, LONG);
    let id = held(&server, operator(), spawn("work")).await;
    refusal(give(&server, &operator(), &id, Grant::Approve).await, ErrorCode::Denied);
    refusal(give(&server, &agent(), &id, Grant::Approve).await, ErrorCode::Denied);
    let theirs = Caller::of("token:theirs".to_owned(), Role::Operator);
    let theirs = theirs.in_tenant("theirs".parse().unwrap());
    refusal(give(&server, &theirs, &id, Grant::Approve).await, ErrorCode::NotFound);
    assert!(cells(&server).await.is_empty());
    let another = Caller::of("token:other".to_owned(), Role::Operator);
    give(&server, &another, &id, Grant::Approve).await.unwrap();
    server.ask(&impatient(operator()), spawn("work")).await.unwrap();
    // Whoever has the machine may, also for calls of its own client.
    let id = held(&server, agent(), spawn("more")).await;
    give(&server, &Caller::local(7), &id, Grant::Approve).await.unwrap();
}

#[tokio::test]
async fn who_may_only_look_makes_no_default_cell() {
    let house = House::new();
    let engine = house.engine();
    let reader = Caller { scopes: vec![Scope::Read], ..agent() };
    let reader = reader.with_default_cell("mine".parse().unwrap());
    let read = FileCall::new(CellRef::Default, FileRead::default().into());
    let error = engine.ask(&reader, read).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::NotFound, "{error:?}");
    let cells = async || ask(&engine, CellList::default()).await.unwrap().cells.len();
    assert_eq!(cells().await, 0);
    // Who may use it has it made.
    let caller = agent().with_default_cell("mine".parse().unwrap());
    let run = ExecRun::new(CellRef::Default, Command::Shell("true".to_owned()));
    engine.ask(&caller, run).await.unwrap();
    assert_eq!(cells().await, 1);
}

#[tokio::test]
async fn what_is_not_done_leaves_no_default_cell() {
    let rules = "[[rule]]\nid = \"no\"\nverdict = \"deny\"\ncommand = \"hostname\"\n\n\
                 [[rule]]\nid = \"writes\"\nverdict = \"ask\"\ntool = \"fs_write\"\n";
    let (house, rules) = (House::new(), Changing::new(rules));
    let server = judging(&house, &rules, LONG);
    let caller = impatient(agent()).with_default_cell("mine".parse().unwrap());
    let run = |text: &str| ExecRun::new(CellRef::Default, Command::Shell(text.to_owned()));
    refusal(server.ask(&caller, run("hostname")).await, ErrorCode::Denied);
    let write = FileWrite { path: "a".to_owned(), ..FileWrite::default() };
    let write = FileCall::new(CellRef::Default, write.into());
    let error = refusal(server.ask(&caller, write).await, ErrorCode::Timeout);
    assert!(error.held.is_some() && cells(&server).await.is_empty(), "{error:?}");
    // The control: what is done makes it.
    server.ask(&caller, run("true")).await.unwrap();
    assert_eq!(cells(&server).await.len(), 1);
}

#[tokio::test]
async fn a_cell_that_is_gone_by_then_is_not_found() {
    let rules = "[[rule]]\nid = \"kills\"\nverdict = \"ask\"\ntool = \"cell_kill\"\n";
    let (house, rules) = (House::new(), Changing::new(rules));
    let server = judging(&house, &rules, LONG);
    let cell = persistent(&house.engine()).await;
    let kill = || CellKill {
        cell: cell.clone().into(),
        force: true,
        volumes: true,
        wait: KillWait::Removed,
    };
    let caller = agent();
    let (killed, ()) = tokio::join!(server.ask(&caller, kill()), async {
        let id = only_waiting(&server).await;
        ask(&house.engine(), kill()).await.unwrap();
        give(&server, &operator(), &id, Grant::Approve).await.unwrap();
    });
    refusal(killed, ErrorCode::NotFound);
}

#[tokio::test]
async fn a_server_that_is_to_end_waits_for_nobody() {
    let (house, rules) = (House::new(), Changing::new(ASK_SPAWN));
    let server = judging(&house, &rules, LONG);
    let caller = agent();
    let (asked, ()) = tokio::join!(server.ask(&caller, spawn("work")), async {
        only_waiting(&server).await;
        server.end_waits();
    });
    let error = refusal(asked, ErrorCode::Timeout);
    assert_eq!(error.held, Some(Box::new(only_waiting(&server).await)));
}

#[tokio::test]
async fn the_servers_own_work_and_a_persons_word_need_no_approval() {
    let everything = "[[rule]]\nid = \"all\"\nverdict = \"ask\"\ntool = \"*\"\n";
    let (house, rules) = (House::new(), Changing::new(everything));
    let server = judging(&house, &rules, LONG);
    server.ask(&impatient(Caller::server()), CellAdopt).await.unwrap();
    let id = held(&server, agent(), spawn("work")).await;
    give(&server, &impatient(operator()), &id, Grant::Approve).await.unwrap();
    // The control.
    let list = CellList { include_stopped: true };
    refusal(server.ask(&impatient(agent()), list).await, ErrorCode::Timeout);
}

#[tokio::test]
async fn so_many_wait_and_no_more() {
    let (house, rules) = (House::new(), Changing::new(ASK_SPAWN));
    let server = judging(&house, &rules, LONG);
    for number in 0..100 {
        held(&server, agent(), spawn(&format!("work{number}"))).await;
    }
    let more = server.ask(&impatient(agent()), spawn("more")).await;
    refusal(more, ErrorCode::LimitExceeded);
    // Another tenant has its own.
    held(&server, agent().in_tenant("theirs".parse().unwrap()), spawn("more")).await;
}

#[tokio::test]
async fn a_digest_has_the_values_of_secrets_in_it() {
    let house = House::new();
    let ledger = ledger(&house);
    let set = |value: &str| {
        let value = SecretValue::new(value.as_bytes().to_vec()).unwrap();
        SecretSet { name: "name".parse().unwrap(), value }.into()
    };
    let whole = |value: &str| digest::of_whole(&ledger, &agent(), &set(value)).unwrap();
    assert_eq!(whole("one"), whole("one"));
    assert_ne!(whole("one"), whole("two"));
    // What stands in the ledger has not.
    let of = |value: &str| digest::of(&ledger, &set(value)).unwrap();
    assert_eq!(of("one"), of("two"));
}

#[tokio::test]
async fn the_ledger_names_the_held_call_and_not_its_content() {
    let (house, rules) = (House::new(), Changing::new(ASK_SPAWN));
    let server = judging(&house, &rules, LONG);
    let mut request = spawn("work");
    request.env.insert("COLOR".to_owned(), "ultramarine".to_owned());
    let id = held(&server, agent(), request).await;
    let query = AuditQuery { limit: 1000, ..AuditQuery::default() };
    let entries = ask(&server, query).await.unwrap().entries;
    let asked = entries.iter().find(|it| it.kind == EntryKind::Decision).unwrap();
    assert_eq!(asked.details["held"], Detail::Text(id.to_string()));
    assert!(!serde_json::to_string(&entries).unwrap().contains("ultramarine"));
}
