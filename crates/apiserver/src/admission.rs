//! What is decided about a write after the object is known: that nobody grants more than they have, quotas.

use serde_json::Value;

use crate::auth::PolicyKind;
use crate::auth::rbac::PolicyWrite;
use crate::core::{Call, Core, Target};
use crate::error::ApiError;
use crate::identity::RBAC_GROUP;

impl Core {
    /// Lets a write pass, changes it, or refuses it. `old`: it is an update.
    pub(crate) async fn admit(
        &self,
        call: &mut Call<'_>,
        target: &Target<'_>,
        new: &mut Value,
        old: Option<&Value>,
        _dry_run: bool,
    ) -> Result<(), ApiError> {
        let definition = target.definition;
        if definition.group == RBAC_GROUP
            && let Some(kind) = PolicyKind::of_resource(&definition.plural)
        {
            let (user, namespace, name) = (&call.user, target.namespace, target.name);
            self.identity.rbac().check_escalation(&PolicyWrite { user, kind, namespace, name, new, old })?;
        }
        Ok(())
    }
}
