//! Deviations for the evaluation of connectivity, from the verdict of a policy.

use super::carry_out::{Deviation, Instead};
use crate::feature::Feature;
use crate::model::Place;
use crate::profile::{CarriedOut, Support};
use crate::verdict::{self, Extent, PolicyVerdict, Subject};

impl Deviation {
    /// The deviations that a verdict has found, what nobody knows and what could not be looked for included.
    #[must_use]
    pub fn of_verdict(verdict: &PolicyVerdict) -> Vec<Self> {
        let known = verdict.deviations.iter().map(|deviation| Self {
            policy: verdict.id.clone(),
            place: deviation.place.clone(),
            direction: deviation.direction,
            feature: feature(deviation.subject),
            instead: instead(deviation),
            message: deviation.message.as_str().into(),
        });
        let undefined = |place: Place, feature, why: String| {
            let why: std::sync::Arc<str> = why.into();
            let instead = Instead::Undefined(why.clone());
            Self { policy: verdict.id.clone(), place, direction: None, feature, instead, message: why }
        };
        let unanswered = verdict.unanswered.iter().map(|unanswered| {
            undefined(unanswered.place.clone(), feature(unanswered.subject), unanswered.why.to_string())
        });
        let not_looked_for = verdict.not_looked_for.iter().flat_map(|missing| {
            // Where pods were not read, connections are unknown anyway; the other features need pods.
            let blocks = missing.features.iter().filter(|feature| {
                matches!(feature, Feature::IpBlockNodeAddress | Feature::IpBlockServiceAddress)
            });
            blocks.map(|feature| {
                let why = format!("{} could not be read: {}", missing.objects, missing.reason);
                undefined(Place("spec".into()), Some(*feature), why)
            })
        });
        known.chain(unanswered).chain(not_looked_for).collect()
    }
}

const fn feature(subject: Subject) -> Option<Feature> {
    match subject {
        Subject::Feature(feature) => Some(feature),
        Subject::Limit(_) => None,
    }
}

/// What is done instead; without a statement of the profile, what is left out.
fn instead(deviation: &verdict::Deviation) -> Instead {
    let known = match (deviation.carried_out, deviation.support, deviation.extent) {
        (Some(known), ..) => Some(known),
        (None, Support::Dropped, Extent::Policy) => Some(CarriedOut::PolicyIgnored),
        (None, Support::Dropped, Extent::Direction) => Some(CarriedOut::DirectionIgnored),
        (None, Support::Dropped, Extent::Rule) => Some(CarriedOut::RuleIgnored),
        (None, Support::Dropped, Extent::Part) => Some(part(&deviation.place)),
        (None, ..) => None,
    };
    known.map_or_else(|| Instead::Undefined(deviation.message.as_str().into()), Instead::Known)
}

/// What leaves out the part at a place: an entry of the ports, a peer, or the rule.
fn part(place: &Place) -> CarriedOut {
    if place.0.contains(".ports") || place.0.contains(".protocols") {
        CarriedOut::PortIgnored
    } else if place.0.contains(".from[") || place.0.contains(".to[") {
        CarriedOut::PeerIgnored
    } else {
        CarriedOut::RuleIgnored
    }
}
