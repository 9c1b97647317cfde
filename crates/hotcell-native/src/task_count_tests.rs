//! How tasks are counted that `/proc` does not show.

use super::*;

#[test]
fn this_user_has_tasks() {
    assert!(shown_tasks() >= 1);
}

#[test]
fn the_least_that_works_is_found_from_any_start() {
    for (from, least_of_all) in [(0, 0), (3, 3), (3, 4), (3, 5), (3, 1000), (7, 1), (0, 4096)] {
        let found = least(from, 4096, |number| number >= least_of_all);
        assert_eq!(found, Some(least_of_all.max(from)), "{from} {least_of_all}");
    }
}

#[test]
fn what_is_right_at_once_is_tried_once() {
    let mut tried = Vec::new();
    let found = least(40, 4096, |number| {
        tried.push(number);
        true
    });
    assert_eq!((found, tried), (Some(40), vec![40]));
}

#[test]
fn where_nothing_works_it_is_given_up() {
    let mut tried = 0;
    let found = least(3, MOST, |_| {
        tried += 1;
        false
    });
    assert_eq!(found, None);
    assert!(tried < 30, "{tried}");
    assert_eq!(least(9, 4, |_| false), None);
}
