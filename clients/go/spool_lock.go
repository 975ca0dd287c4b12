//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package ledger

import (
	"os"
	"syscall"
)

// lockSpool lets no other process have the file; the lock ends with the process.
func lockSpool(file *os.File) error {
	return syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}
