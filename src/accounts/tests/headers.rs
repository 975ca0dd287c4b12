//! Headers and trailers of errors that sockets do not take.

use super::*;

const KIB: usize = 1_024;

/// A connection: KiB of headers that it was given, whether its socket takes nothing, whether the peer is a trusted proxy, and
/// whether it is closed.
type Row = (usize, bool, bool, bool);

/// All together may have 512 KiB; after closing, 448 are left.
#[test]
fn connections_with_most_headers_are_closed_first() {
    let tables: [(&str, &[Row]); 5] = [
        ("within the bound", &[(300, true, false, false), (212, true, false, false)]),
        ("the heaviest", &[(200, true, false, false), (313, true, false, true)]),
        (
            "until there is room",
            &[(256, true, false, true), (258, true, false, true), (255, true, false, false)],
        ),
        ("a socket that takes them goes last", &[(400, false, false, false), (200, true, false, true)]),
        ("a trusted proxy stays", &[(500, true, true, false), (513, true, false, true)]),
    ];
    for (what, rows) in tables {
        let accounts = accounts(LIMITS);
        let clients: Vec<Client> =
            (1..).zip(rows).map(|(address, _)| Client::of(&accounts, address)).collect();
        for (client, (kib, blocked, proxy, _)) in clients.iter().zip(rows) {
            client.connection.set_proxy(*proxy);
            client.connection.set_unsent(usize::from(*blocked));
            client.connection.sends_headers(kib * KIB);
        }
        after(&accounts, 3);
        let closed = |clients: &[Client]| -> Vec<bool> {
            clients.iter().map(|client| client.closed.is_cancelled()).collect()
        };
        let wanted: Vec<bool> = rows.iter().map(|row| row.3).collect();
        assert_eq!(closed(&clients), wanted, "{what}");
        // A closed connection is about to return its bytes: it ends no other connection.
        accounts.0.answers_are_too_many();
        after(&accounts, 3);
        assert_eq!(closed(&clients), wanted, "{what}, a sweep later");
        drop(clients);
        assert_eq!(accounts.0.headers.bytes(), 0, "{what}");
    }
}
