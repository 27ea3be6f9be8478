//! The numbers of the contract's rules, parsed from its text.

/// The contract that the cases check: the text of `CONTRACT.md`.
pub const CONTRACT: &str = include_str!("../CONTRACT.md");

/// The number of every rule in [`CONTRACT`], in the order of the text: `V1`, `V2`, and so on.
pub fn rules() -> impl Iterator<Item = &'static str> {
    CONTRACT.lines().filter_map(|line| line.strip_prefix("- **")?.split_once("** ")).map(|(rule, _)| rule)
}
