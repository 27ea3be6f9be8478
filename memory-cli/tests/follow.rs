//! Ledgers that move between engines while a program writes to them.

use common::Cli;
use common::moving::check_move;
use common::servers::Servers;

mod common;

#[test]
fn from_sqlite_to_each_server_and_back() {
    let servers = Servers::start();
    for to in servers.urls(&format!("follow_{}", std::process::id())) {
        let cli = Cli::new();
        let from = format!("sqlite://{}", cli.path("memory.db").display());
        check_move(&cli, &from, &to);
        // The target is then the source of another move.
        check_move(&cli, &to, &format!("sqlite://{}", cli.path("back.db").display()));
    }
}
