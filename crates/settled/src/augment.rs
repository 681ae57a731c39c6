use crate::cli::AugmentArgs;
use crate::error::CommandError;
use std::process::ExitCode;
pub(crate) fn run(_args: &AugmentArgs) -> Result<ExitCode, CommandError> {
    Err(CommandError::usage("augment is not available yet"))
}
