//! What is decided about a write after the object is known: quotas, for instance.

use serde_json::Value;

use crate::core::{Call, Core, Target};
use crate::error::ApiError;

impl Core {
    /// Lets a write pass, changes it, or refuses it. `old`: it is an update.
    pub(crate) async fn admit(
        &self,
        _call: &mut Call<'_>,
        _target: &Target<'_>,
        _new: &mut Value,
        _old: Option<&Value>,
        _dry_run: bool,
    ) -> Result<(), ApiError> {
        Ok(())
    }
}
