package leaderboard

import "testing"

// The fields of a compact board in Redis are binary. Invalid text must cause an error and cost no more than its length.
func FuzzTable(f *testing.F) {
	for _, seed := range []string{"", "\x00", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "\x02\x04\x06", "0 0 1 m",
		"1 1 -9223372036854775808 a b", "\x80"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if places, err := readPlaces(nil, s); err == nil && len(places) > len(s) {
			t.Errorf("%d places of %d bytes", len(places), len(s))
		}
		if rows, err := readRows(s); err == nil && len(rows) > len(s) {
			t.Errorf("%d rows of %d bytes", len(rows), len(s))
		}
		_, _ = sumAbove(s, 3)
		_, _ = readChanges(nil, s)
		_, _, _, _ = readMeta(s)
	})
}
