package collection

import "testing"

func FuzzCursor(f *testing.F) {
	for _, seed := range []string{"", "bQ", "cw", "c2E6MQ", "====", position{ordered: true, after: "é:\x00"}.cursor(),
		position{era: 9, at: "17"}.cursor()} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, cursor string) {
		p, err := positionOf(cursor)
		if err != nil || cursor == "" {
			return
		}
		if again, err := positionOf(p.cursor()); err != nil || again != p {
			t.Errorf("%q: got %+v, and of its own text %+v, %v", cursor, p, again, err)
		}
	})
}
