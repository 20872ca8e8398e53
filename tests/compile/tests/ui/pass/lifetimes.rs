use std::borrow::Cow;

use outbox_sdk::OutboxEvent;
use schemars::JsonSchema;
use serde::Serialize;
use uuid::Uuid;

#[derive(Serialize, JsonSchema, OutboxEvent)]
#[outbox(aggregate_type = "thing")]
struct ThingRenamed<'a, 'b: 'a>
where
    'a: 'a,
{
    #[outbox(aggregate_id)]
    id: &'a str,
    #[outbox(tenant_id)]
    tenant: &'b Uuid,
    name: Cow<'a, str>,
}

fn main() {
    let (id, tenant) = (String::from("a"), Uuid::nil());
    let event = ThingRenamed { id: &id, tenant: &tenant, name: Cow::Borrowed("b") };
    assert_eq!(event.aggregate_id(), Some(id.clone()));
    assert_eq!(event.tenant_id(), Some(tenant));
}
