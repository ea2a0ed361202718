package app

import (
	"errors"
	"path/filepath"
	"testing"
)

func TestOneServerAloneHasItsOwnRedisOnASQLiteDatabase(t *testing.T) {
	data := filepath.Join(t.TempDir(), "later")
	first := Config{Data: data, SQL: "sqlite", Redis: "embedded"}
	release, err := first.Alone()
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		second Config
		want   error
	}{
		"the same":               {first, errNotAlone},
		"from another folder":    {Config{Data: t.TempDir(), SQL: "sqlite:" + filepath.Join(data, "stoa.db"), Redis: "spawn"}, errNotAlone},
		"with a Redis server":    {Config{Data: data, SQL: "sqlite", Redis: "redis://127.0.0.1:1"}, nil},
		"with another database":  {Config{Data: t.TempDir(), SQL: "sqlite", Redis: "embedded"}, nil},
		"with a database server": {Config{Data: data, SQL: "mysql://127.0.0.1:1/stoa", Redis: "embedded"}, nil},
	} {
		release, err := tt.second.Alone()
		if !errors.Is(err, tt.want) {
			t.Errorf("%s: got %v, want %v", name, err, tt.want)
		}
		if err == nil && release() != nil {
			t.Errorf("%s: it is not released", name)
		}
	}
	if err := release(); err != nil {
		t.Fatal(err)
	}
	if release, err = first.Alone(); err != nil || release() != nil {
		t.Errorf("after the first one has ended: %v", err)
	}
}
