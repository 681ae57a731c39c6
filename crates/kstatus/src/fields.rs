//! Fields that rules read, by parent and key.

use crate::node::same;

/// Declares the fields that rules read, one line per parent, so that a parent's fields are adjacent.
macro_rules! fields {
    ($($parent:ident: $($field:ident = $key:literal),+;)+) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub(crate) enum Field { $($($field,)+)+ }

        /// Every field with its key and parent.
        const TABLE: &[(Field, &str, Parent)] = &[$($((Field::$field, $key, Parent::$parent),)+)+];
        pub(crate) const FIELDS: usize = TABLE.len();

        impl Field {
            pub(crate) const fn key(self) -> &'static str {
                match self { $($(Self::$field => $key,)+)+ }
            }

            pub(crate) const fn parent(self) -> Parent {
                match self { $($(Self::$field => Parent::$parent,)+)+ }
            }

            /// Its bit in a set of fields.
            pub(crate) const fn bit(self) -> u128 {
                1 << self as u32
            }

            /// The field at a place of the table.
            pub(crate) fn at(place: usize) -> Option<Self> {
                TABLE.get(place).map(|(field, ..)| *field)
            }
        }

        impl Parent {
            const fn range(self) -> (usize, usize) {
                match self {
                    $(Self::$parent => {
                        let all = [$(Field::$field),+];
                        (all[0] as usize, all[all.len() - 1] as usize + 1)
                    })+
                }
            }
        }
    };
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parent {
    Top,
    Metadata,
    Spec,
    Status,
}

impl Parent {
    /// A bit for each field that it holds.
    pub(crate) const fn mask(self) -> u128 {
        let (from, to) = self.range();
        (u128::MAX >> (u128::BITS as usize - (to - from))) << from
    }

    /// The field that holds the parent itself.
    pub(crate) const fn field_of_top(self) -> Option<Field> {
        match self {
            Self::Top => None,
            Self::Metadata => Some(Field::Metadata),
            Self::Spec => Some(Field::Spec),
            Self::Status => Some(Field::Status),
        }
    }

    /// The parent's path with a leading dot, empty for the object itself.
    pub(crate) const fn path(self) -> &'static str {
        match self {
            Self::Top => "",
            Self::Metadata => ".metadata",
            Self::Spec => ".spec",
            Self::Status => ".status",
        }
    }
}

fields! {
    Top: ApiVersion = "apiVersion", ObjectKind = "kind", Metadata = "metadata", Spec = "spec", Status = "status",
        Endpoints = "endpoints";
    Metadata: Name = "name", Namespace = "namespace", Generation = "generation",
        DeletionTimestamp = "deletionTimestamp", CreationTimestamp = "creationTimestamp", Finalizers = "finalizers",
        Annotations = "annotations", Labels = "labels", Uid = "uid", ResourceVersion = "resourceVersion",
        OwnerReferences = "ownerReferences";
    Spec: SpecReplicas = "replicas", Paused = "paused", ProgressDeadline = "progressDeadlineSeconds",
        MinReadySeconds = "minReadySeconds", UpdateStrategy = "updateStrategy", SpecType = "type",
        ClusterIp = "clusterIP", Parallelism = "parallelism", Completions = "completions",
        CompletionMode = "completionMode", Suspend = "suspend", SpecFinalizers = "finalizers", SpecHard = "hard",
        SpecResources = "resources", SpecMetrics = "metrics", TargetCpu = "targetCPUUtilizationPercentage",
        SchedulingGates = "schedulingGates", ReadinessGates = "readinessGates", RestartPolicy = "restartPolicy",
        NodeUnschedulable = "unschedulable", HolderIdentity = "holderIdentity", RenewTime = "renewTime",
        LeaseDuration = "leaseDurationSeconds", ReclaimPolicy = "persistentVolumeReclaimPolicy",
        SignerName = "signerName", PriorityLevel = "priorityLevelConfiguration", NodeName = "nodeName",
        NodeSelector = "nodeSelector", Volumes = "volumes", Containers = "containers",
        InitContainers = "initContainers";
    Status: ObservedGeneration = "observedGeneration", Conditions = "conditions", Replicas = "replicas",
        UpdatedReplicas = "updatedReplicas", ReadyReplicas = "readyReplicas",
        AvailableReplicas = "availableReplicas", CurrentReplicas = "currentReplicas",
        FullyLabeledReplicas = "fullyLabeledReplicas", CurrentRevision = "currentRevision",
        UpdateRevision = "updateRevision", DesiredNumberScheduled = "desiredNumberScheduled",
        CurrentNumberScheduled = "currentNumberScheduled", UpdatedNumberScheduled = "updatedNumberScheduled",
        NumberAvailable = "numberAvailable", NumberReady = "numberReady", Phase = "phase", State = "state",
        StatusWord = "status", Health = "health", StatusReason = "reason", StatusMessage = "message",
        ContainerStatuses = "containerStatuses", InitContainerStatuses = "initContainerStatuses",
        EphemeralContainerStatuses = "ephemeralContainerStatuses", LoadBalancer = "loadBalancer",
        Addresses = "addresses", StartTime = "startTime", Succeeded = "succeeded", Active = "active",
        FailedCount = "failed", CompletedIndexes = "completedIndexes", FailedIndexes = "failedIndexes",
        Capacity = "capacity", AllocatedResources = "allocatedResources",
        AllocatedResourceStatuses = "allocatedResourceStatuses", ModifyVolumeStatus = "modifyVolumeStatus",
        Attached = "attached", AttachError = "attachError", DetachError = "detachError",
        ReadyToUse = "readyToUse", StatusError = "error", DisruptionsAllowed = "disruptionsAllowed",
        CurrentHealthy = "currentHealthy", DesiredHealthy = "desiredHealthy", CurrentMetrics = "currentMetrics",
        StatusHard = "hard", StatusUsed = "used", Certificate = "certificate", TypeChecking = "typeChecking",
        Allocation = "allocation", ReservedFor = "reservedFor", Devices = "devices";
}

/// Hash table of field keys with linear probing: indexes in [`TABLE`] counted from 1, 0 for an empty slot. See [`slot`].
const SLOTS: [u8; 1024] = {
    let mut slots = [0u8; 1024];
    let mut at = 0;
    while at < FIELDS {
        let (_, key, parent) = TABLE[at];
        let mut slot = slot(parent, key.as_bytes());
        while slots[slot] != 0 {
            slot = (slot + 1) % slots.len();
        }
        at += 1;
        slots[slot] = at as u8;
    }
    slots
};

/// Hash of a key: its parent, its length and two bytes, of which one multiplication makes ten bits.
const fn slot(parent: Parent, key: &[u8]) -> usize {
    if key.is_empty() {
        return 0;
    }
    let (first, last) = (key[0] as u32, key[key.len() - 1] as u32);
    let lengths = ((key.len() as u32) << 16) ^ ((parent as u32) << 24);
    let word = first | (last << 8) | lengths;
    (word.wrapping_mul(HASH_FACTOR) >> 22) as usize
}

/// Of a few hundred odd numbers one with few keys in the same slot.
const HASH_FACTOR: u32 = 0x6c0f_d4f5;

impl Parent {
    /// Looks up a field by its key.
    #[inline]
    pub(crate) fn field(self, key: &[u8]) -> Option<Field> {
        let mut slot = slot(self, key);
        loop {
            let at = usize::from(*SLOTS.get(slot)?).checked_sub(1)?;
            let (field, known, parent) = TABLE.get(at)?;
            if *parent as usize == self as usize && same(known.as_bytes(), key) {
                return Some(*field);
            }
            slot = (slot + 1) % SLOTS.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_is_found_by_its_key() {
        for (field, key, parent) in TABLE {
            assert_eq!(parent.field(key.as_bytes()), Some(*field));
            for other in [Parent::Top, Parent::Metadata, Parent::Spec, Parent::Status] {
                let found = other.field(key.as_bytes());
                assert!(found.is_none_or(|found| found.key() == *key && found.parent() == other));
            }
        }
        for key in ["", "x", "zzNobodyReadsThis", "statuss"] {
            assert_eq!(Parent::Top.field(key.as_bytes()), None);
        }
    }
}
