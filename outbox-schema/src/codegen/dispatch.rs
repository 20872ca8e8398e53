//! What stands between events and the methods of a consumer's handler, in Rust.

use super::model::{Model, PinModel};
use super::names::pascal;
use super::rust::{SAFE_WIDTH, doc_lines};
use super::{Database, Options};

const TEMPLATE: &str = include_str!("templates/handler.rs.txt");

/// The widest chain of calls that rustfmt leaves on one line.
const CHAIN_WIDTH: usize = 60;

/// `use`, the pins, the trait, the dispatch.
pub(crate) fn rust(model: &Model, options: &Options) -> String {
    let database = match options.database {
        Database::Postgres => "Postgres",
        Database::Sqlite => "Sqlite",
    };
    let of_each =
        |text: &dyn Fn(&PinModel) -> String| -> Vec<String> { model.pins.iter().map(text).collect() };
    let arms = of_each(&arm).concat();
    let name = pascal(&model.consumer);
    let long = is_long(&arms) || 2 * name.len() + 50 > SAFE_WIDTH;
    // The consumer's name is lower case, so no word of the template is in it; what it says comes last.
    TEMPLATE
        .replace("LONG", if long { "#[rustfmt::skip]\n" } else { "" })
        .replace("DATABASE", database)
        .replace("NAME", &name)
        .replace("\"CONSUMER\"", &format!("{:?}", model.consumer))
        .replace("`CONSUMER`", &format!("`{}`", model.consumer))
        .replace("\nPINS]", &format!("\n{}]", of_each(&pin).concat()))
        .replace("\nARMS", &format!("\n{arms}"))
        .replace("\nMETHODS", &format!("\n{}", of_each(&|pin| method(pin, database)).join("\n")))
}

fn is_long(text: &str) -> bool {
    text.lines().any(|line| line.len() > SAFE_WIDTH)
}

fn pin(pin: &PinModel) -> String {
    format!("    ({:?}, {}),\n", pin.event_type.as_str(), pin.major)
}

fn method(pin: &PinModel, database: &str) -> String {
    let payload = pin.types.get(0);
    let mut docs = doc_lines(&payload.docs, 4);
    if !docs.is_empty() {
        docs.push_str("    ///\n");
    }
    let signature = format!(
        "    fn {}(\n        &self,\n        event: Received<'_, {}::{}>,\n        tx: &mut Transaction<'_, {database}>,\n    ) -> \
         impl Future<Output = Result<(), HandlerError>> + Send;\n",
        pin.name, pin.name, payload.name
    );
    let skip = if is_long(&signature) { "    #[rustfmt::skip]\n" } else { "" };
    format!("{docs}    /// `{}` v{}.\n{skip}{signature}", pin.event_type, pin.major)
}

fn arm(pin: &PinModel) -> String {
    let call = format!("self.0.{}(event, tx).await", pin.name);
    let call = if call.len() <= CHAIN_WIDTH {
        call
    } else {
        format!("self.0\n                    .{}(event, tx)\n                    .await", pin.name)
    };
    format!(
        "            ({:?}, {}) => {{\n                let event = Received::read(event)?;\n                {call}\n            }}\n",
        pin.event_type.as_str(),
        pin.major
    )
}
