//! The customers of the sample service, and who changes them.

use sqlx::{Row as _, Sqlite, Transaction};
use uuid::Uuid;

use super::error::DemoError;
use super::events::{Actor, CustomerState};

/// A customer as it is stored.
pub(super) struct Customer {
    pub(super) id: i64,
    pub(super) tenant_key: String,
    pub(super) code: String,
    pub(super) version: u32,
    pub(super) state: CustomerState,
}

impl Customer {
    pub(super) fn new(id: i64) -> Self {
        let state = CustomerState { name: format!("Company {id}"), city: city(id), credit_limit: 100_000 };
        Self { id, tenant_key: tenant_key(id).to_owned(), code: format!("C-{id}"), version: 1, state }
    }

    pub(super) async fn load(tx: &mut Transaction<'_, Sqlite>, id: i64) -> Result<Self, DemoError> {
        let row = sqlx::query(
            "SELECT tenant_key, code, version, name, city, credit_limit FROM customer WHERE id = ?",
        )
        .bind(id)
        .fetch_one(&mut **tx)
        .await?;
        Ok(Self {
            id,
            tenant_key: row.try_get("tenant_key")?,
            code: row.try_get("code")?,
            version: row.try_get("version")?,
            state: CustomerState {
                name: row.try_get("name")?,
                city: row.try_get("city")?,
                credit_limit: row.try_get("credit_limit")?,
            },
        })
    }

    /// What the next update makes of it.
    pub(super) fn next(&self) -> CustomerState {
        CustomerState {
            name: self.state.name.clone(),
            city: city(self.id + i64::from(self.version)),
            credit_limit: self.state.credit_limit + 2_500,
        }
    }
}

fn city(number: i64) -> String {
    let name = match number % 4 {
        0 => "Lyon",
        1 => "Porto",
        2 => "Graz",
        _ => "Malmö",
    };
    name.to_owned()
}

fn tenant_key(customer: i64) -> &'static str {
    if customer % 2 == 0 { "south" } else { "north" }
}

pub(super) fn tenant_id(customer: i64) -> Uuid {
    Uuid::from_u128(if customer % 2 == 0 { 2 } else { 1 })
}

pub(super) fn clerk() -> Actor {
    Actor { principal_type: "user".to_owned(), principal_id: "clerk".to_owned() }
}

/// A few people look after all customers, so that several writers publish about one principal.
pub(super) fn account_manager(customer: i64) -> Actor {
    Actor { principal_type: "user".to_owned(), principal_id: format!("manager-{}", customer % 5) }
}
