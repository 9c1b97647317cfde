//! What is held is bounded, shared, and given back.

use super::*;

#[test]
fn one_that_sends_much_leaves_room_for_another() {
    let rooms = BodyRooms::default();
    let [a, b] = ["a", "b"].map(|name| name.parse::<Tenant>().unwrap());
    let piece = 1 << 20;
    let mut held = Vec::new();
    let refused = loop {
        let room = rooms.of(&a);
        match room.take(piece) {
            Ok(()) => held.push(room),
            Err(refusal) => break refusal,
        }
    };
    assert_eq!(held.len(), MOST_BYTES / piece / 2);
    assert_eq!(refused.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(refused.error.retry_after_s, Some(1));
    let other = rooms.of(&b);
    for _ in 0..32 {
        other.take(piece).unwrap();
    }
    assert!(rooms.of(&a).take(piece).is_err());
    drop(other);
    drop(held);
    let left = rooms.taken();
    assert_eq!((left.all, left.by_tenant.len()), (0, 0));
}
