//! The tree of spaces, over the command line and over HTTP.

use common::server::Server;
use common::{Cli, TOKENS, stderr};
use serde_json::{Value, json};

mod common;

/// A folder with memories of two tenants, a document, and a token's rights.
fn tenants() -> Cli {
    let (cli, mut lines) = (Cli::new(), String::new());
    for (place, space) in
        ["guild1-model-1", "guild1-general-ana", "guild1-general-bob", "guild12-general", "guild1"].iter().enumerate()
    {
        lines += &format!("{}\n", json!({"spaceId": space, "trigger": "hello", "createdAt": place}));
    }
    let document = json!({
        "kind": "document", "collection": "notes", "id": "a", "spaceId": "guild1-notes", "content": "text", "createdAt": 7,
    });
    lines += &format!("{document}\n");
    cli.ok(&["import", &cli.write("lines.jsonl", lines)]);
    cli
}

fn space(id: &str, count: usize, newest: i64) -> Value {
    json!({"id": id, "count": count, "more": false, "newest": newest})
}

#[test]
fn the_command_and_the_server_list_the_same() {
    let cli = tenants();
    let listed = |args: &[&str]| -> Vec<Value> {
        let told = cli.ok(&[&["spaces", "--json"], args].concat());
        told.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
    };
    let server = Server::start(&cli, &[]);
    let top = [space("guild1", 4, 4), space("guild12", 1, 3)];
    assert_eq!(listed(&[]), top);
    assert_eq!(server.get("/v1/spaces").json(), json!({"levels": [{"spaces": top}]}));
    let below = [space("guild1-general", 2, 2), space("guild1-model", 1, 0)];
    assert_eq!(listed(&["--under", "guild1"]), below);
    let deep = server.get("/v1/spaces?under=guild1&depth=2").json();
    assert_eq!(deep["levels"][0], json!({"under": "guild1", "spaces": below}));
    assert_eq!(deep["levels"][1]["under"], "guild1-general");
    assert_eq!(listed(&["--under", "guild1", "--depth", "2"]).len(), 5);
    let notes = server.get("/v1/spaces?collection=notes").json();
    assert_eq!(notes["levels"][0]["spaces"], json!([space("guild1", 1, 7)]));
    assert_eq!(listed(&["--collection", "notes", "--under", "guild1"]), [space("guild1-notes", 1, 7)]);

    let page = server.get("/v1/spaces?limit=1").json();
    let next = page["levels"][0]["next"].as_str().expect("a cursor");
    let rest = server.get(&format!("/v1/spaces?limit=1&cursor={next}")).json();
    assert_eq!(rest, json!({"levels": [{"spaces": [top[1]]}]}));
    let cut = cli.run(&["spaces", "--limit", "1"]);
    assert!(stderr(&cut).starts_with("next: --cursor "), "{}", stderr(&cut));

    for query in ["under=", "depth=0", "depth=9", "limit=1001", "cursor=x", "collection=A"] {
        server.get(&format!("/v1/spaces?{query}")).problem(422);
    }
    server.get("/v1/spaces?all=true").problem(400);
    for wrong in [["--depth", "0"], ["--limit", "1001"], ["--cursor", "x"]] {
        cli.fails(2, &[&["spaces"], &wrong[..]].concat());
    }
    assert_eq!(cli.ok(&["spaces", "--under", "nowhere"]).trim(), "no spaces found");
}

#[test]
fn a_token_lists_what_it_may_read() {
    let cli = tenants();
    let server = Server::start(&cli, &["--tokens", &cli.write("tokens.toml", TOKENS)]);
    let list = |token: &str, query: &str| {
        let token = format!("Bearer {token}-0123456789abcdef");
        server.request("GET", &format!("/v1/spaces?{query}"), &[("authorization", &token)], "")
    };
    let levels = |token: &str, query: &str| list(token, query).json()["levels"].clone();
    assert_eq!(levels("model", ""), json!([{"spaces": [space("guild1", 1, 0)]}]));
    let below = json!([{"under": "guild1", "spaces": [space("guild1-model", 1, 0)]}]);
    assert_eq!(levels("model", "under=guild1"), below);
    assert_eq!(levels("model", "under=guild12"), json!([{"under": "guild12", "spaces": []}]));
    assert_eq!(levels("runtime", "")[0]["spaces"].as_array().map(Vec::len), Some(2));
    list("model", "collection=private").problem(403);
    server.get("/v1/spaces").problem(401);
}
