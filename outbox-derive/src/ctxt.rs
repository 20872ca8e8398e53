//! Collects errors, so that one compilation reports every mistake.

use std::fmt::Display;

use proc_macro2::TokenStream;
use quote::ToTokens;

/// The errors found so far.
#[derive(Default)]
pub(crate) struct Ctxt {
    errors: Vec<syn::Error>,
}

impl Ctxt {
    /// Reports `message`, underlining `at`.
    pub(crate) fn error(&mut self, at: impl ToTokens, message: impl Display) {
        self.errors.push(syn::Error::new_spanned(at, message));
    }

    /// Reports `message`, underlining `at`; `help` is what the user can do. On stable a macro cannot attach a
    /// help of its own, but rustc aligns a second line of the message in the same way.
    pub(crate) fn error_with_help(&mut self, at: impl ToTokens, message: impl Display, help: impl Display) {
        self.error(at, format_args!("{message}\nhelp: {help}"));
    }

    /// Reports an error in syn's own words: the tokens are not an attribute at all.
    pub(crate) fn syntax_error(&mut self, error: syn::Error) {
        self.errors.push(error);
    }

    pub(crate) fn is_clean(&self) -> bool {
        self.errors.is_empty()
    }

    /// Every error as a `compile_error!`, in the order of reporting.
    pub(crate) fn into_compile_errors(self) -> TokenStream {
        self.errors.iter().map(syn::Error::to_compile_error).collect()
    }

    #[cfg(test)]
    pub(crate) fn messages(&self) -> Vec<String> {
        self.errors.iter().map(ToString::to_string).collect()
    }
}
