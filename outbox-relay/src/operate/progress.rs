//! How far each consumer is.

use outbox_sdk::Backend;
use outbox_sdk::backend::ConsumerRow;

use super::{OperateError, Operator};

impl<DB: Backend> Operator<DB> {
    /// Every slot of every registered consumer, by name and slot.
    ///
    /// # Errors
    /// [`OperateError`] when the database cannot be asked.
    pub async fn consumers(&self) -> Result<Vec<ConsumerRow>, OperateError> {
        let mut conn = self.connect().await?;
        let rows = self.within(DB::consumers(&mut conn, &self.tables)).await?;
        conn.keep();
        Ok(rows)
    }
}
