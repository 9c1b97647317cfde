//! Tests of what fits beside what.

use super::*;

const MACHINE_CPUS: u32 = 8;

fn limits(memory_mb: u64, cpus: Option<f64>) -> Limits {
    Limits { memory_mb, cpus, pids: 100, disk_mb: 1000, disk_files: 1000 }
}

fn cell(name: &str, memory_mb: u64, is_awake: bool) -> Counted {
    Counted { name: name.to_owned(), limits: limits(memory_mb, Some(1.0)), is_awake }
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
        "there are 1000 cells with processes already, and 1000 may be there; end a cell with \
         `hotcell kill` (other, other, other), or let the operator raise admission.cells"
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
        "the cell asks for 401 MiB of memory; of the 1000 that all cells may have together 600 are \
         taken; end a cell with `hotcell kill` (large has 500, small has 100), ask for less, or let \
         the operator raise admission.memory_mb"
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
