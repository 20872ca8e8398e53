//! A consumer with nothing of the producer but a copy of its registry: pin, generate, implement.

#[rustfmt::skip] // It is formatted for projects without a rustfmt.toml.
pub mod events;

use events::{entity_customer_archived_v1::CustomerArchived, order_placed_v1::OrderPlaced};
use outbox_sdk::{HandlerError, Received};
use sqlx::{Sqlite, Transaction};

type Tx<'t> = Transaction<'t, Sqlite>;
type Handled = Result<(), HandlerError>;

/// Keeps the invoices. Give `events::handler(Billing)` to an `Inbox`, or to a relay's `HandlerSink`.
#[derive(Debug)]
pub struct Billing;

impl events::BillingHandler for Billing {
    async fn order_placed_v1(&self, event: Received<'_, OrderPlaced>, tx: &mut Tx<'_>) -> Handled {
        let order = event.payload;
        if order.total_cents < 0 {
            return Err(HandlerError::reject("an order with a negative total; correct it at the shop"));
        }
        let insert = sqlx::query("INSERT INTO invoice (order_id, customer, cents) VALUES (?, ?, ?)");
        insert.bind(order.order_id).bind(order.customer).bind(order.total_cents).execute(&mut **tx).await?;
        Ok(())
    }

    async fn entity_customer_archived_v1(
        &self,
        event: Received<'_, CustomerArchived>,
        tx: &mut Tx<'_>,
    ) -> Handled {
        let close = sqlx::query("UPDATE invoice SET closed = 1 WHERE customer = ?");
        close.bind(event.payload.before.name).execute(&mut **tx).await?;
        Ok(())
    }
}
