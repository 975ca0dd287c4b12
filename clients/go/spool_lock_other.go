//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package ledger

import (
	"errors"
	"os"
)

// lockSpool refuses: without a lock two processes could write one file.
func lockSpool(*os.File) error {
	return errors.ErrUnsupported
}
