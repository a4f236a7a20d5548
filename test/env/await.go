package env

import "time"

// Await looks until there is no error, and returns the last one when that takes
// longer than within. It looks the less often the longer it has waited, since a look
// may cost an API request or a git process, and tests wait beside each other.
func Await(within time.Duration, look func() error) error {
	for began := time.Now(); ; {
		err := look()
		waited := time.Since(began)
		if err == nil || waited > within {
			return err
		}
		time.Sleep(min(max(waited/5, 5*time.Millisecond), 250*time.Millisecond))
	}
}
