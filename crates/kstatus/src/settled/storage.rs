//! Rules for storage: PersistentVolumeClaim, PersistentVolume, VolumeAttachment, snapshots.

use std::borrow::Cow;
use std::collections::BTreeMap;

use settled_apimachinery::quantity::Amount;

use super::context::{Condition, Context, current, in_progress, recoverable, terminal};
use super::member;
use crate::fields::Field;
use crate::node::Node;
use crate::reason;
use crate::text::text;
use crate::verdict::{FailureClass, Verdict};

pub(super) fn persistent_volume_claim(context: &Context<'_, '_>) -> Verdict {
    let phase = context.text(Field::Phase).unwrap_or_default();
    match &*phase {
        "Bound" => bound_claim(context),
        "Lost" => terminal(
            FailureClass::Storage,
            "Lost",
            "the volume that the PVC was bound to does not exist any more",
        ),
        _ => {
            let phase = if phase.is_empty() { "not bound" } else { &phase };
            in_progress(reason::NOT_BOUND, text!("PVC is {phase}")).failure(FailureClass::Storage, false)
        }
    }
}

/// A bound claim may still be growing, or changing its attributes.
fn bound_claim(context: &Context<'_, '_>) -> Verdict {
    let mut growing = None;
    for condition in context.conditions().iter().filter(Condition::is_true) {
        let type_ = condition.type_text();
        match &*type_ {
            "ControllerResizeError" | "NodeResizeError" | "ModifyVolumeError" => {
                let message = condition.message_or(|| text!("condition {type_} is True"));
                let verdict = recoverable(FailureClass::Storage, type_.into_owned(), message);
                return context.decided_by(&condition, || verdict);
            }
            "Resizing" | "FileSystemResizePending" | "ModifyingVolume" => {
                growing.get_or_insert((type_, condition));
            }
            _ => {}
        }
    }
    if let Some(statuses) = context.map(Field::AllocatedResourceStatuses) {
        // In order of the names, which their order in the object does not change.
        let statuses: BTreeMap<_, _> = statuses.members().collect();
        for (resource, status) in statuses {
            let Some(status) = status.as_str() else { continue };
            // ControllerResizeInfeasible, NodeResizeInfeasible: the request can never be met as it is.
            if status.ends_with("Infeasible") {
                let message = text!("the volume cannot be resized as asked ({resource}: {status})");
                return recoverable(FailureClass::Storage, status.into_owned(), message);
            }
            if growing.is_none() {
                return in_progress(
                    status.clone().into_owned(),
                    text!("the volume is being resized ({resource}: {status})"),
                );
            }
        }
    }
    if let Some(status) = context.map(Field::ModifyVolumeStatus).and_then(|status| member(status, "status")) {
        if status == "Infeasible" {
            return recoverable(
                FailureClass::Storage,
                "ModifyVolumeInfeasible",
                "the volume's attributes cannot be changed as asked",
            );
        }
        if growing.is_none() {
            return in_progress(
                "ModifyingVolume",
                text!("the volume's attributes are being changed: {status}"),
            );
        }
    }
    if let Some((type_, condition)) = growing {
        let message = condition.message_or(|| text!("the volume is being changed: {type_}"));
        return in_progress(type_.into_owned(), message);
    }
    let capacity = storage(context.map(Field::Capacity));
    let allocated = storage(context.map(Field::AllocatedResources));
    let requested =
        storage(context.map(Field::SpecResources).and_then(|resources| resources.get("requests")));
    for wanted in [allocated, requested] {
        if let (Some((wanted, text)), Some((has, has_text))) = (&wanted, &capacity)
            && wanted > has
        {
            return in_progress("Resizing", text!("the volume is being resized from {has_text} to {text}"));
        }
    }
    current("Bound", "PVC is Bound")
}

/// The quantity under the key `storage`, with its text.
fn storage(map: Option<Node<'_>>) -> Option<(Amount, Cow<'_, str>)> {
    let node = map?.get("storage")?;
    let text = match node.as_str() {
        Some(text) => text,
        None => node.as_int()?.to_string().into(),
    };
    Some((Amount::parse(&text).ok()?, text))
}

pub(super) fn persistent_volume(context: &Context<'_, '_>) -> Verdict {
    let phase = context.text(Field::Phase).unwrap_or_default();
    let message = context.text(Field::StatusMessage).filter(|message| !message.is_empty());
    match &*phase {
        "Available" => current("Available", "the volume is available"),
        "Bound" => current("Bound", "the volume is bound to a PVC"),
        "Released" => {
            if context.text(Field::ReclaimPolicy).is_some_and(|policy| policy == "Delete") {
                in_progress("Released", "the PVC is gone; the volume is being deleted")
            } else {
                current("Released", "the PVC is gone; the volume is retained until it is reclaimed manually")
            }
        }
        "Failed" => {
            let reason = context.text(Field::StatusReason).filter(|reason| !reason.is_empty());
            let message =
                message.map_or_else(|| "the volume could not be reclaimed".to_owned(), |m| m.into_owned());
            recoverable(
                FailureClass::Storage,
                reason.map_or_else(|| "ReclaimFailed".to_owned(), Cow::into_owned),
                message,
            )
        }
        "" => in_progress("NotObserved", "the volume's phase is not available"),
        phase => in_progress("NotAvailable", text!("the volume is not available. phase: {phase}")),
    }
}

pub(super) fn volume_attachment(context: &Context<'_, '_>) -> Verdict {
    let attached = context.boolean(Field::Attached) == Some(true);
    if let Some(error) = context.map(Field::DetachError) {
        return recoverable(
            FailureClass::Storage,
            "DetachError",
            error_message(error, "the volume cannot be detached"),
        );
    }
    if attached {
        return current("Attached", "the volume is attached");
    }
    if let Some(error) = context.map(Field::AttachError) {
        return recoverable(
            FailureClass::Storage,
            "AttachError",
            error_message(error, "the volume cannot be attached"),
        );
    }
    in_progress("NotAttached", "the volume is not attached yet")
}

/// VolumeSnapshot and its kin: `readyToUse`, else the error.
pub(super) fn snapshot(context: &Context<'_, '_>) -> Verdict {
    if context.boolean(Field::ReadyToUse) == Some(true) {
        return current("ReadyToUse", "the snapshot is ready to use");
    }
    match context.map(Field::StatusError) {
        Some(error) => {
            recoverable(FailureClass::Storage, "SnapshotError", error_message(error, "the snapshot failed"))
        }
        None => in_progress("NotReadyToUse", "the snapshot is not ready to use yet"),
    }
}

fn error_message(error: Node<'_>, fallback: &str) -> String {
    member(error, "message").map_or_else(|| fallback.to_owned(), |message| message.into_owned())
}
