//! Orders are written as the runner reads them.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::{Limits, Order, ZygoteOrder};

#[test]
fn an_order_has_the_fields_that_the_runner_reads() {
    let order = Order {
        run: "e_1".to_owned(),
        code: "1".to_owned(),
        env: Some(BTreeMap::from([("A".to_owned(), "b".to_owned())])),
        results: "/workspace/.results/e_1".to_owned(),
        limits: Limits::default(),
        session: true,
    };
    let written: Value = serde_json::to_value(&order).unwrap();
    assert_eq!(
        written,
        json!({
            "run": "e_1", "code": "1", "env": {"A": "b"},
            "results": "/workspace/.results/e_1", "limits": {"report_bytes": 262_144},
            "session": true,
        })
    );
    let kept = Order { env: None, ..order };
    assert_eq!(serde_json::to_value(&kept).unwrap()["env"], Value::Null);
    let zygote = ZygoteOrder { imports: vec!["json".to_owned()] };
    assert_eq!(serde_json::to_value(&zygote).unwrap(), json!({"imports": ["json"]}));
}
