//! Tests of what fits beside what.

use super::*;

const MACHINE_CPUS: u32 = 8;

fn limits(memory_mb: u64, cpus: Option<f64>) -> Limits {
    Limits { memory_mb, cpus, pids: 100, disk_mb: 1000, disk_files: 1000 }
}

fn cell(name: &str, memory_mb: u64, is_awake: bool) -> Counted {
    Counted {
        name: name.to_owned(),
        tenant: Tenant::default(),
        limits: limits(memory_mb, Some(1.0)),
        presence: if is_awake { Presence::Awake } else { Presence::Asleep },
        created_at: Timestamp(1),
    }
}

/// The same of a tenant, that came at this time.
fn of(tenant: &str, presence: Presence, at: u64) -> Counted {
    let (tenant, created_at) = (tenant.parse().unwrap(), Timestamp(at));
    Counted { tenant, presence, created_at, ..cell("other", 100, true) }
}

fn fits(
    admission: &Admission,
    others: &[Counted],
    asked: &Limits,
    machine_cpus: u32,
) -> std::result::Result<(), Refused> {
    let bounds = Bounds::of_all(admission);
    super::fits(&bounds, others, (&Tenant::default(), asked), machine_cpus)
}

fn refused(admission: &Admission, others: &[Counted], asked: &Limits) -> (String, bool) {
    let refused = fits(admission, others, asked, MACHINE_CPUS).unwrap_err();
    let Error { code, message, hint, .. } = refused.error;
    assert_eq!(code, hotcell_model::ErrorCode::LimitExceeded);
    (format!("{message}; {}", hint.unwrap()), refused.may_fit_later)
}

#[test]
fn without_bounds_only_the_number_of_cells_counts() {
    let many: Vec<Counted> = (0..999).map(|_| cell("other", 1 << 20, true)).collect();
    fits(&Admission::default(), &many, &limits(1 << 20, None), MACHINE_CPUS).unwrap();
    let one_more = [many, vec![cell("last", 1, true)]].concat();
    let (text, may_fit_later) = refused(&Admission::default(), &one_more, &limits(1, None));
    assert!(may_fit_later);
    assert_eq!(
        text,
        "1000 cells with processes may be there in all, and there are as many; 1000 of them are \
         the tenant's; end a cell with `hotcell kill` (other, other, other), or let the operator \
         raise admission.cells"
    );
}

#[test]
fn a_sum_beyond_the_bound_is_refused_with_its_numbers() {
    let admission = Admission { memory_mb: Some(1000), ..Admission::default() };
    let others = [cell("small", 100, true), cell("large", 500, true), cell("asleep", 900, false)];
    fits(&admission, &others, &limits(400, None), MACHINE_CPUS).unwrap();
    let (text, may_fit_later) = refused(&admission, &others, &limits(401, None));
    assert!(may_fit_later);
    assert_eq!(
        text,
        "the cell asks for 401 MiB of memory; of the 1000 that all cells may have together fewer \
         are free, and 600 are the tenant's; end a cell with `hotcell kill` (large has 500, small \
         has 100), ask for less, or let the operator raise admission.memory_mb"
    );
}

#[test]
fn what_never_fits_is_not_waited_for() {
    let admission = Admission { memory_mb: Some(1000), ..Admission::default() };
    let (text, may_fit_later) = refused(&admission, &[], &limits(1001, None));
    assert!(!may_fit_later);
    assert!(!text.contains("kill"), "{text}");
}

#[test]
fn a_cell_without_a_cpu_limit_counts_as_the_whole_machine() {
    let admission = Admission { cpus: Some(8.5), ..Admission::default() };
    fits(&admission, &[], &limits(1, None), MACHINE_CPUS).unwrap();
    refused(&admission, &[cell("one", 1, true)], &limits(1, None));
    fits(&admission, &[cell("one", 1, true)], &limits(1, Some(7.5)), MACHINE_CPUS).unwrap();
}

#[test]
fn disk_is_taken_by_those_asleep_too() {
    let admission = Admission { disk_mb: Some(2500), pids: Some(250), ..Admission::default() };
    let asleep = [cell("one", 1, false), cell("two", 1, false)];
    let (text, _) = refused(&admission, &asleep, &limits(1, None));
    assert!(text.contains("admission.disk_mb"), "{text}");
    fits(&admission, &asleep[..1], &limits(1, None), MACHINE_CPUS).unwrap();
    let awake = [cell("one", 1, true), cell("two", 1, true)];
    let (text, _) = refused(&admission, &awake, &limits(1, None));
    assert!(text.contains("300") || text.contains("admission.pids"), "{text}");
}

#[test]
fn a_tenant_has_its_own_sums_and_is_told_of_its_own_cells() {
    let mut table = TenantTable::default();
    table.others.quotas = [(Quota::Cells, 2), (Quota::MemoryMb, 250)].into();
    let a: Tenant = "a".parse().unwrap();
    let bounds = Bounds::of_tenant(&table, &a);
    let fits = |others: &[Counted], memory_mb| {
        super::fits(&bounds, others, (&a, &limits(memory_mb, None)), MACHINE_CPUS)
    };
    let foreign: Vec<Counted> = (0..9).map(|_| of("b", Presence::Awake, 1)).collect();
    let one = [foreign.clone(), vec![of("a", Presence::Awake, 1)]].concat();
    fits(&one, 150).unwrap();
    let refused = fits(&one, 151).unwrap_err().error;
    let hit = refused.quota.clone().unwrap();
    assert_eq!((hit.key.as_str(), hit.limit, hit.current), ("tenants.default.memory_mb", 250, 100));
    assert_eq!(refused.retry_after_s, Some(RETRY_S));
    let two = [one, vec![of("a", Presence::Awake, 1)]].concat();
    let refused = fits(&two, 1).unwrap_err().error;
    assert_eq!(refused.quota.unwrap().key, "tenants.default.cells");
    // What all of them have together is bounded as well; of others nothing is told but that.
    let all = Bounds::of_all(&Admission { cells: 9, ..Admission::default() });
    let refused = super::fits(&all, &foreign, (&a, &limits(1, None)), MACHINE_CPUS).unwrap_err();
    assert!(!refused.error.hint.unwrap().contains("other"));
}

#[test]
fn whose_tenant_has_least_comes_next_and_then_who_was_first() {
    use Presence::{Awake, Waiting};
    let mut others: Vec<Counted> = (0..1000).map(|at| of("a", Waiting, at)).collect();
    others.extend([of("a", Awake, 1), of("a", Awake, 1), of("b", Awake, 1)]);
    let newcomer = of("b", Waiting, 9999);
    assert!(others[..1000].iter().all(|it| comes_before(&newcomer, it, &others)));
    assert!(!others[..1000].iter().any(|it| comes_before(it, &newcomer, &others)));
    assert!(comes_before(&others[0], &others[1], &others));
    // A tenant that has nothing yet comes before all.
    assert!(comes_before(&of("c", Waiting, 99_999), &newcomer, &others));
}
