//! The name of a lane: what the database makes of a row is what the relay writes.

use outbox_sdk::{Lane, NewEnvelope};
use outbox_tests::on_every_database;
use uuid::Uuid;

use super::{Stage, dispatched};
use crate::databases::TestDb;

on_every_database! {
    the_database_names_lanes_as_the_relay_does
}

async fn the_database_names_lanes_as_the_relay_does<T: TestDb>() {
    let tenant = Uuid::from_u128(0xABCD_EF01_2345_6789_ABCD_EF01_2345_6789);
    let controls: String = (1..0x20_u8).map(char::from).collect();
    let every_ascii: String = (0x20..0x80_u8).map(char::from).collect();
    let awkward = [
        "42",
        "",
        " ",
        "\"",
        "\\",
        "\\\"",
        "a\",\"b",
        "/",
        "\u{7f}\u{80}\u{a0}",
        "ä\u{2028}\u{2029}\u{feff}",
        "🦀",
        "\u{10ffff}",
        "null",
        "[1]",
        "\\u0041",
        controls.as_str(),
        every_ascii.as_str(),
    ];
    let mut lanes = Vec::new();
    for id in awkward {
        for tenant in [None, Some(tenant)] {
            lanes.push((tenant, "customer", id));
        }
        // A type holds no control characters.
        if !id.contains(char::is_control) {
            lanes.push((None, id, "42"));
        }
    }
    let events: Vec<_> = lanes
        .iter()
        .map(|(tenant, aggregate_type, id)| {
            let mut event = NewEnvelope::new("customer.updated", 1, aggregate_type, "{}".to_owned());
            event.aggregate_id = Some((*id).to_owned());
            event.tenant_id = *tenant;
            event
        })
        .collect();
    let stage = Stage::<T>::with_events(&events).await;
    let end = i64::try_from(lanes.len()).unwrap() + 1;
    stage.consumer("crm", end).await;
    let keys: std::collections::BTreeSet<_> = lanes
        .iter()
        .map(|(tenant, aggregate_type, id)| Lane::aggregate(*tenant, aggregate_type, id))
        .collect();
    for lane in &keys {
        stage.stall("crm", lane, 1, false).await;
    }
    let recorded = stage.record().await;
    assert_eq!(recorded, dispatched(0, lanes.len() as u64), "every lane was found by its name");
}
