//! What an event is: a struct whose fields are the payload, and which knows its name, its version and its ids.

use std::borrow::Cow;
use std::num::NonZero;
use std::rc::Rc;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;
use uuid::Uuid;

use crate::error::PublishError;
use crate::older::OlderPayloads;

/// A typed domain event. The value is the payload: it serializes to a JSON object.
///
/// Derive it with [`#[derive(OutboxEvent)]`](macro@crate::OutboxEvent), which checks the name, and tests the
/// schema against the registry. A hand-written impl gives up both: the relay then refuses what does not fit.
///
/// ```
/// use outbox_sdk::OutboxEvent;
/// use schemars::JsonSchema;
/// use serde::Serialize;
/// use uuid::Uuid;
///
/// #[derive(Serialize, JsonSchema, OutboxEvent)]
/// #[outbox(event_type = "customer.updated", schema_version = 2, aggregate_type = "customer")]
/// struct CustomerUpdated {
///     #[outbox(aggregate_id)]
///     customer_id: Uuid,
///     name: String,
/// }
///
/// let event = CustomerUpdated { customer_id: Uuid::nil(), name: "Ada".to_owned() };
/// assert_eq!((CustomerUpdated::EVENT_TYPE, CustomerUpdated::SCHEMA_VERSION), ("customer.updated", 2));
/// assert_eq!(event.aggregate_id(), Some("00000000-0000-0000-0000-000000000000".to_owned()));
/// assert_eq!(event.tenant_id(), None);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an outbox event",
    label = "not an outbox event",
    note = "derive it: `#[derive(serde::Serialize, schemars::JsonSchema, outbox_sdk::OutboxEvent)]` and \
            `#[outbox(aggregate_type = \"..\")]` on the struct"
)]
pub trait OutboxEvent: Serialize + JsonSchema {
    /// What happened: `<object>.<verb>` or `<object>.<type>.<verb>`, such as `customer.updated`.
    const EVENT_TYPE: &'static str;

    /// The major version of the payload's schema, from 1. Additive changes keep it, breaking ones take the next.
    const SCHEMA_VERSION: u32;

    /// What kind of thing the event is about, such as `customer`: at most 255 bytes, no control characters.
    const AGGREGATE_TYPE: &'static str;

    /// Which thing the event is about. Events of one aggregate are delivered in the order of their commits.
    /// `None` is an event without aggregate: it has no order.
    fn aggregate_id(&self) -> Option<String>;

    /// Whose event it is. `None` leaves it to the operation: the tenant of the context, else the tenant setting of
    /// the transaction, else nobody's (an event of the platform).
    fn tenant_id(&self) -> Option<Uuid>;

    /// Adds the event as readers of older majors see it: `#[outbox(also_as = ..)]`. They are stored in the same row, so
    /// that consumers move from one major to the next in their own time. By default there are none.
    ///
    /// # Errors
    /// As [`OlderPayloads::add`].
    fn older_payloads(&self, older: &mut OlderPayloads) -> Result<(), PublishError> {
        let _ = older;
        Ok(())
    }
}

/// A type whose values name an aggregate. The text is the identity: two values that mean the same aggregate must
/// give the same text, and no change of the program may change it.
///
/// Implemented for `Uuid`, strings, integers, and references and smart pointers to them. Implement it for your
/// own id types by handing on:
///
/// ```
/// use outbox_sdk::ToAggregateId;
/// use uuid::Uuid;
///
/// struct CustomerId(Uuid);
///
/// impl ToAggregateId for CustomerId {
///     fn to_aggregate_id(&self) -> String {
///         self.0.to_aggregate_id()
///     }
/// }
/// ```
///
/// There is no impl for `Option`: an id that is missing now and then would silently lose the order of the events.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an aggregate id",
    label = "not an aggregate id",
    note = "use `Uuid`, `String`, an integer, or implement `ToAggregateId` for your id type",
    note = "an event without aggregate has no `#[outbox(aggregate_id)]` field at all; an id that is missing now and \
            then would silently lose the order of the events"
)]
pub trait ToAggregateId {
    /// The id as text, such as `8c0f9f0e-6a5e-4a64-9c0c-0a3f4a1d7b11` or `4711`: 1 to 255 bytes, no NUL.
    fn to_aggregate_id(&self) -> String;
}

/// A type whose values name a tenant, or nobody's.
///
/// Implemented for `Uuid`, `Option<Uuid>` and references to them. Implement it for your own id types by handing
/// on:
///
/// ```
/// use outbox_sdk::ToTenantId;
/// use uuid::Uuid;
///
/// struct TenantId(Uuid);
///
/// impl ToTenantId for TenantId {
///     fn to_tenant_id(&self) -> Option<Uuid> {
///         Some(self.0)
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a tenant id",
    label = "not a tenant id",
    note = "use `Uuid`, `Option<Uuid>`, or implement `ToTenantId` for your id type"
)]
pub trait ToTenantId {
    /// The tenant; `None` leaves it to the operation, see [`OutboxEvent::tenant_id`].
    fn to_tenant_id(&self) -> Option<Uuid>;
}

impl ToAggregateId for Uuid {
    fn to_aggregate_id(&self) -> String {
        // Lower case with hyphens, as every database writes it.
        self.to_string()
    }
}

impl ToAggregateId for str {
    fn to_aggregate_id(&self) -> String {
        self.to_owned()
    }
}

impl ToAggregateId for String {
    fn to_aggregate_id(&self) -> String {
        self.clone()
    }
}

macro_rules! integers {
    ($($integer:ty)*) => {$(
        impl ToAggregateId for $integer {
            fn to_aggregate_id(&self) -> String {
                self.to_string()
            }
        }

        impl ToAggregateId for NonZero<$integer> {
            fn to_aggregate_id(&self) -> String {
                self.to_string()
            }
        }
    )*};
}

integers!(i8 i16 i32 i64 i128 isize u8 u16 u32 u64 u128 usize);

macro_rules! pointers {
    ($($pointer:ty),*) => {$(
        impl<T: ToAggregateId + ?Sized> ToAggregateId for $pointer {
            fn to_aggregate_id(&self) -> String {
                (**self).to_aggregate_id()
            }
        }
    )*};
}

pointers!(&T, Box<T>, Rc<T>, Arc<T>);

impl<T: ToAggregateId + ToOwned + ?Sized> ToAggregateId for Cow<'_, T> {
    fn to_aggregate_id(&self) -> String {
        (**self).to_aggregate_id()
    }
}

impl ToTenantId for Uuid {
    fn to_tenant_id(&self) -> Option<Uuid> {
        Some(*self)
    }
}

impl ToTenantId for Option<Uuid> {
    fn to_tenant_id(&self) -> Option<Uuid> {
        *self
    }
}

impl<T: ToTenantId + ?Sized> ToTenantId for &T {
    fn to_tenant_id(&self) -> Option<Uuid> {
        (**self).to_tenant_id()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_keep_their_text() {
        let uuid = Uuid::from_u128(0xA1);
        assert_eq!(uuid.to_aggregate_id(), "00000000-0000-0000-0000-0000000000a1");
        assert_eq!("a".to_aggregate_id(), "a");
        assert_eq!((-7_i64).to_aggregate_id(), "-7");
        assert_eq!(u128::MAX.to_aggregate_id(), u128::MAX.to_string());
        assert_eq!(NonZero::<u32>::MAX.to_aggregate_id(), "4294967295");
    }

    #[test]
    fn pointers_hand_on() {
        fn id<T: ToAggregateId + ?Sized>(of: &T) -> String {
            of.to_aggregate_id()
        }
        let text = String::from("a");
        assert_eq!(id(&&text), "a");
        assert_eq!(id(&Box::<str>::from("a")), "a");
        assert_eq!(id(&Arc::<str>::from("a")), "a");
        assert_eq!(id(&Rc::new(5_u8)), "5");
        assert_eq!(id(&Cow::Borrowed("a")), "a");
        assert_eq!(id(&Cow::<Uuid>::Owned(Uuid::nil())), Uuid::nil().to_string());
    }

    #[test]
    fn a_tenant_may_be_left_to_the_operation() {
        let uuid = Uuid::from_u128(1);
        assert_eq!(uuid.to_tenant_id(), Some(uuid));
        assert_eq!(Some(uuid).to_tenant_id(), Some(uuid));
        assert_eq!(None::<Uuid>.to_tenant_id(), None);
        assert_eq!((&&uuid).to_tenant_id(), Some(uuid));
    }
}
