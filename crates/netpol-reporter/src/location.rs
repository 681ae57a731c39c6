//! Where conditions are written: into the status of policies, or into reports beside them.

use kube::{Client, Error};

/// Where conditions are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Location {
    /// `status.conditions` of NetworkPolicies.
    Status,
    /// Reports, since the API server has no such field.
    Report,
    /// Reports, since the API server ignores writes of the field: its feature gate is off.
    ReportGateOff,
}

impl Location {
    pub(crate) const ALL: [Self; 3] = [Self::Status, Self::Report, Self::ReportGateOff];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Status => "status",
            Self::Report => "report",
            Self::ReportGateOff => "report-gate-off",
        }
    }
}

/// What the API server has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Served {
    /// The status subresource of NetworkPolicies.
    pub(crate) status: bool,
    /// NetworkPolicyReports.
    pub(crate) reports: bool,
}

/// Asks the API server.
pub(crate) async fn discover(client: &Client) -> Result<Served, Error> {
    let networking = client.list_api_group_resources("networking.k8s.io/v1").await?;
    let status = networking.resources.iter().any(|resource| resource.name == "networkpolicies/status");
    let reports = match client.list_api_group_resources(&crate::report::api_version()).await {
        Ok(list) => list.resources.iter().any(|resource| resource.name == crate::report::PLURAL),
        Err(Error::Api(status)) if status.code == 404 => false,
        Err(error) => return Err(error),
    };
    Ok(Served { status, reports })
}
