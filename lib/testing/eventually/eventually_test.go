package eventually

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

// failing is a test that may fail.
type failing struct {
	testing.TB
	said string
}

func (f *failing) Helper() {}

func (f *failing) Fatalf(format string, args ...any) { f.said = fmt.Sprintf(format, args...) }

func TestEventually_FindsLateState(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		began := time.Now()
		late := func() bool { return time.Since(began) >= timeout-time.Second }
		True(t, "the time", late)
		began = time.Now()
		Equal(t, "the time", true, late)
		began = time.Now()
		NoError(t, "the time", func() error {
			if late() {
				return nil
			}
			return errors.New("too early")
		})
	})
}

func TestEventually_FailsWithLastState(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		for _, tt := range []struct {
			want string
			wait func(t testing.TB)
		}{
			{"in vain for rain", func(t testing.TB) { True(t, "rain", func() bool { return false }) }},
			{"in vain for rain: got 3, want 4", func(t testing.TB) { Equal(t, "rain", 4, func() int { return 3 }) }},
			{"in vain for rain: no cloud", func(t testing.TB) { NoError(t, "rain", func() error { return errors.New("no cloud") }) }},
		} {
			began := time.Now()
			f := &failing{TB: t}
			tt.wait(f)
			if !strings.Contains(f.said, tt.want) || time.Since(began) < timeout {
				t.Errorf("got %q after %v, want %q after %v", f.said, time.Since(began), tt.want, timeout)
			}
		}
	})
}
