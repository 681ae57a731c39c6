//! The built-in controllers of the API server, killed after every write.

use settled_faults::{Options, explore_server};

use crate::builtin;

#[test]
fn built_in_controllers_survive_restarts_after_every_write() {
    for scenario in builtin::scenarios() {
        let report = explore_server(&scenario, &Options::share(40)).unwrap();
        assert!(report.is_clean(), "{report}");
        assert!(report.writes >= 8 && report.schedules > report.writes, "{report}");
    }
}
