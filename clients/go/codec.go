package ledger

import "encoding/json"

// encode is a handler's value as the ledger stores it: bytes and text as they are, nothing for None, and all else as JSON.
func encode[T any](value T) ([]byte, error) {
	switch known := any(value).(type) {
	case []byte:
		return known, nil
	case string:
		return []byte(known), nil
	case None:
		return nil, nil
	default:
		return json.Marshal(value)
	}
}

// decode reads back what encode has made.
func decode[T any](stored []byte) (value T, err error) {
	switch known := any(&value).(type) {
	case *[]byte:
		*known = stored
	case *string:
		*known = string(stored)
	case *None:
	default:
		err = json.Unmarshal(stored, &value)
	}
	return value, err
}
