//! Checks the parts of a URL that concern TLS together.

use sqlx::postgres::PgSslMode;

use crate::store::postgres::connection::target::ROOT_VARIABLE;
use crate::store::postgres::connection::url::PgUrl;
use crate::store::postgres::connection::url_options::{CERTIFICATES, KEYS, MODES, ROOTS};

impl PgUrl {
    /// Whether the mode verifies the name of the server.
    pub(in crate::store::postgres) fn is_full(&self) -> bool {
        let mut modes = self.target.options.iter().filter(|(name, _)| MODES.contains(&&**name));
        modes.next_back().is_some_and(|(_, mode)| mode.eq_ignore_ascii_case("verify-full"))
    }

    /// Handles `ssl=true` and `sslrootcert=system` of libpq; the driver would use `system` as the name of a file.
    pub(in crate::store::postgres) fn tls(&mut self) -> Result<(), String> {
        self.certificate()?;
        let is_full = self.is_full();
        let options = &mut self.target.options;
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

    /// Refuses `sslcertmode=disable` if a client's certificate is named; without a certificate the option has no effect.
    fn certificate(&self) -> Result<(), String> {
        let target = &self.target;
        let is_named = target.has(&CERTIFICATES)
            || target.has(&KEYS)
            || target.variables.iter().any(|(variable, _)| *variable != ROOT_VARIABLE);
        if self.certificate_mode.as_deref() == Some("disable") && is_named {
            return Err(format!(
                "{}=disable asks for no client certificate, and one is named: leave out either this or sslcert and sslkey",
                self.stands.certificate_mode
            ));
        }
        Ok(())
    }
}
