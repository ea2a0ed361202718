package wholeserver

import (
	"os"
	"strings"
	"testing"

	"github.com/stoa-dev/stoa/internal/app"
	"github.com/stoa-dev/stoa/internal/bubble"
	"github.com/stoa-dev/stoa/internal/testkit"
	"github.com/stoa-dev/stoa/keyspace"
)

func TestTheKeyspaceHasNoFault(t *testing.T) {
	if err := keyspace.Lint(app.Keys()...); err != nil {
		t.Error(err)
	}
}

func TestTheLockFileIsWhatTheProgramDeclares(t *testing.T) {
	text, err := os.ReadFile("../../keyspace.lock")
	if err != nil {
		t.Fatal(err)
	}
	lock, err := keyspace.ParseLock(string(text))
	if err != nil {
		t.Fatal(err)
	}
	now := keyspace.NewLock(app.Keys()...)
	for _, change := range lock.Diff(now) {
		t.Errorf("%s", change)
	}
	if string(text) != now.String() {
		t.Error("keyspace.lock is not what the program declares: run make generate; docs/decisions/0011-keyspace-lock.md says why")
	}
}

func TestTheServerShowsItsKeys(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := testkit.Start(t)
		status, header, body := s.Call(t, nil, "GET", "/docs/keys", "")
		if status != 200 || header.Get("Content-Type") != "text/html; charset=utf-8" || !strings.HasPrefix(header.Get("Content-Security-Policy"), "default-src 'none'") {
			t.Errorf("got %d %v", status, header)
		}
		for _, f := range keyspace.NewCatalogue(app.Keys()...).Families {
			if !strings.Contains(body, "<code>"+f.Pattern+"</code>") {
				t.Errorf("the page lacks %s", f.Pattern)
			}
		}
	})
}
