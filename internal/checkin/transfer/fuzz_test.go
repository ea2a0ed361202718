package transfer

import (
	"errors"
	"io"
	"strings"
	"testing"
)

func FuzzImportFile(f *testing.F) {
	for _, seed := range []string{"", "user,day\nA,2026-11-22\n", "\ufeffemail,day,words\na@b,2026-11-22,x\n", "user,day\n\"a\n", "day\n",
		"user,day,day\n", "user,day\n1,2,3\n",
		`{"user":"A","day":"2026-11-22"}`, `{"user":1}`, `{"a":1}`, "{}{}", "\n\n", "null", "[]"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, file string) {
		for _, format := range []Format{CSV, JSONL} {
			next, err := format.reader(strings.NewReader(file))
			if err != nil {
				continue
			}
			most := strings.Count(file, "\n") + 2
			for n := 0; ; n++ {
				l, err := next()
				if fault, ok := errors.AsType[Fault](err); ok && fault.Text == "" {
					t.Errorf("%s %q: a fault without a word", format, file)
				} else if !ok && err != nil {
					if !errors.Is(err, io.EOF) && l.number != 0 {
						t.Errorf("%s %q: a line with the error %v", format, file, err)
					}
					break
				}
				if n > most {
					t.Fatalf("%s %q: more lines than there are", format, file)
				}
			}
		}
	})
}
