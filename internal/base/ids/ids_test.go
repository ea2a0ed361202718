package ids

import (
	"regexp"
	"testing"
)

type thing struct{}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"", "AAAAAAAAAAAA", "aZ09_-aZ09_-", "AAAAAAAAAAA", "AAAAAAAAAAAAA", "AAAAAAAAAAA\n", "AAAAAAAAAAé",
		"../../../../"} {
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

func TestNew_NeverBeginsWithADash(t *testing.T) {
	for i := range 5000 { // one in 64 would be
		for _, id := range []string{New[thing]().String(), Of[thing]([]byte{byte(i), byte(i >> 8)}).String()} {
			if id[0] == '-' || len(id) != Len {
				t.Fatal(id)
			}
		}
	}
}

func TestOf_DependsOnSeedAndType(t *testing.T) {
	type other struct{}
	one := Of[thing]([]byte("one"))
	if got := Of[thing]([]byte("one")); got != one {
		t.Errorf("the same seed again: got %s, want %s", got, one)
	}
	if two := Of[thing]([]byte("two")); two == one {
		t.Errorf("another seed: got %s again", two)
	}
	if got := Of[other]([]byte("one")).String(); got == one.String() {
		t.Errorf("another type: got %s again", got)
	}
}
