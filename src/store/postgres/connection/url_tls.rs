//! What the parts of a URL say together about TLS.

use sqlx::postgres::PgSslMode;

use crate::store::postgres::connection::place::ROOT_VARIABLE;
use crate::store::postgres::connection::url::PgUrl;
use crate::store::postgres::connection::url_options::{CERTIFICATES, KEYS, MODES, ROOTS};

impl PgUrl {
    /// Whether the mode verifies the name of the server.
    pub(in crate::store::postgres) fn is_full(&self) -> bool {
        let mut modes = self.place.options.iter().filter(|(name, _)| MODES.contains(&&**name));
        modes.next_back().is_some_and(|(_, mode)| mode.eq_ignore_ascii_case("verify-full"))
    }

    /// `ssl=true` and `sslrootcert=system` are libpq's; the driver takes the second for the name of a file.
    pub(in crate::store::postgres) fn tls(&mut self) -> Result<(), String> {
        self.certificate()?;
        let is_full = self.is_full();
        let options = &mut self.place.options;
        let modes: Vec<&String> =
            options.iter().filter(|(name, _)| MODES.contains(&&**name)).map(|(_, mode)| mode).collect();
        if modes.iter().any(|mode| mode.parse::<PgSslMode>().is_err()) {
            return Err(format!(
                "{}: must be one of disable, allow, prefer, require, verify-ca and verify-full",
                self.stands.mode
            ));
        }
        if self.says_ssl && !modes.is_empty() {
            return Err("ssl=true is sslmode=require: leave one of ssl and sslmode out".into());
        }
        let is_weaker = self.says_ssl || (!modes.is_empty() && !is_full);
        let has_mode = !modes.is_empty();
        let before = options.len();
        options.retain(|(name, value)| !(ROOTS.contains(&&**name) && value == "system"));
        if options.len() < before {
            if is_weaker {
                return Err(
                    "sslrootcert=system: needs sslmode=verify-full, since every attacker can get a certificate of a \
                            public authority"
                        .into(),
                );
            }
            if !has_mode {
                options.push(("sslmode".into(), "verify-full".into()));
            }
        }
        if self.says_ssl {
            options.push(("sslmode".into(), "require".into()));
        }
        Ok(())
    }

    /// Without a client's certificate there is none to withhold.
    fn certificate(&self) -> Result<(), String> {
        let place = &self.place;
        let is_named = place.has(&CERTIFICATES)
            || place.has(&KEYS)
            || place.variables.iter().any(|(variable, _)| *variable != ROOT_VARIABLE);
        if self.certificate_mode.as_deref() == Some("disable") && is_named {
            return Err(format!(
                "{}=disable asks for no client certificate, and one is named: leave out either this or sslcert and sslkey",
                self.stands.certificate_mode
            ));
        }
        Ok(())
    }
}
