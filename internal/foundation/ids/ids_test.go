package ids

import (
	"regexp"
	"testing"
)

type thing struct{}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"", "AAAAAAAAAAAA", "aZ09_-aZ09_-", "AAAAAAAAAAA", "AAAAAAAAAAAAA", "AAAAAAAAAAA\n", "AAAAAAAAAAé", "../../../../"} {
		f.Add(seed)
	}
	want := regexp.MustCompile(`\A[A-Za-z0-9_-]{12}\z`)
	f.Fuzz(func(t *testing.T, s string) {
		id, err := Parse[thing](s)
		if (err == nil) != want.MatchString(s) || err == nil && id.String() != s {
			t.Errorf("%q: got %q, %v", s, id, err)
		}
		var scanned ID[thing]
		if err := scanned.Scan([]byte(s)); (err == nil) != (s == "" || want.MatchString(s)) || err == nil && scanned.String() != s {
			t.Errorf("%q scanned: got %q, %v", s, scanned, err)
		}
	})
}

func TestNoNewIDIsTakenForAFlag(t *testing.T) {
	for range 5000 { // one draw in 64 would be
		if id := New[thing]().String(); id[0] == '-' {
			t.Fatal(id)
		}
	}
}
