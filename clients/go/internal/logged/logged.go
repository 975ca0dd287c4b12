// Package logged marks an error of which the package ledger logs the type, though the error that wraps it steers.
package logged

// Error is an error that a guard was given, and that the handler did not choose to steer by.
type Error struct {
	// Err is the error.
	Err error
}

// Error is the text of the error, which is not logged.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the error.
func (e *Error) Unwrap() error { return e.Err }
