package accounts

import (
	"testing"

	"github.com/stoa-dev/stoa/internal/config"
)

func TestSettings_ZeroMeansDefaults(t *testing.T) {
	var want Settings
	if _, err := config.Load(&want, config.Sources{}); err != nil {
		t.Fatal(err)
	}
	got := onSQLite(t, Settings{}).cfg
	got.Limits.CodesPerMinute = want.Limits.CodesPerMinute // the worlds of tests have their own
	if got.AccessLife == 0 || got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
