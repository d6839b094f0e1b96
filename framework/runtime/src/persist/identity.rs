//! Identity of a run. A run can use only journals (files of completed results) and checkpoints with the same identity.

use serde::Serialize;

use crate::error::{Error, ErrorKind, Result};

/// Identity of a run, as JSON text: a value that names everything on which the results depend. Journals and checkpoints with another identity
/// are refused.
#[derive(Clone, Debug)]
pub(crate) struct RunIdentity(Result<Vec<u8>, String>);

impl RunIdentity {
    /// Encodes the identity of a run. An error is stored and returned later, when the run starts, because the method that sets this option returns no
    /// error.
    pub(crate) fn of(identity: &(impl Serialize + ?Sized)) -> Self {
        RunIdentity(serde_json::to_vec(identity).map_err(|error| error.to_string()))
    }

    /// Returns the identity of the run as JSON text.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] if the value could not be encoded.
    pub(crate) fn bytes(&self) -> Result<&[u8]> {
        self.0.as_deref().map_err(|why| {
            let text = format!("the identity of the run cannot be written as JSON: {why}");
            Error::new(ErrorKind::Config, text)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identity_is_json_or_an_error() {
        let bytes = |identity: &RunIdentity| identity.bytes().map(<[u8]>::to_vec).map_err(|e| e.to_string());
        assert_eq!(bytes(&RunIdentity::of("0..9")), Ok(b"\"0..9\"".to_vec()));
        assert_eq!(bytes(&RunIdentity::of(&(1, 0.5))), Ok(b"[1,0.5]".to_vec()));
        let bad = std::collections::BTreeMap::from([((1, 2), 3)]);
        assert!(bytes(&RunIdentity::of(&bad)).unwrap_err().contains("key must be a string"));
    }
}
