package ledgerhttp

import (
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"regexp"
	"strings"
)

const sourceMax = 256

var (
	// A key is bare, as most clients send it, without the comma by which a hop joins two headers; or a string of structured
	// fields (RFC 8941).
	keyForm = regexp.MustCompile(`^(?:([!#-+\x2d-~]{1,255})|"((?:[ !#-\[\]-~]|\\["\\]){1,255})")$`)
	escaped = regexp.MustCompile(`\\(.)`)
)

// keyOf is the key of a request by the values of its header; false where it is malformed, or there more than once.
func keyOf(values []string) (string, bool) {
	if len(values) != 1 {
		return "", false
	}
	found := keyForm.FindStringSubmatch(values[0])
	if found == nil {
		return "", false
	}
	if found[1] != "" {
		return found[1], true
	}
	return escaped.ReplaceAllString(found[2], "$1"), true
}

// sourceOf is the source of a request. A hash where it would be too long: cut, it could be that of another tenant.
func sourceOf(tenant, method, route string) string {
	source := quoted(tenant) + "/" + quoted(method) + "/" + quoted(route)
	if len(source) <= sourceMax {
		return source
	}
	sum := sha256.Sum256([]byte(source))
	return hex.EncodeToString(sum[:])
}

// quoted percent-encodes all but letters, digits, '_', '.', '-' and '~'.
func quoted(part string) string {
	return strings.ReplaceAll(url.QueryEscape(part), "+", "%20")
}
