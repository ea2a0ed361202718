package words

import "testing"

func TestWords_MatchInEveryLanguage(t *testing.T) {
	for _, tc := range []struct {
		q     string
		texts []string
		want  bool
	}{
		{"eight", []string{"At EIGHT?"}, true},
		{"EIGHT at", []string{"At eight?"}, true},
		{"nine", []string{"At eight?"}, false},
		{"船", []string{"划船俱乐部"}, true},
		{"葛城", []string{"葛\U000e0100城"}, true},
		{"葛\U000e0100城", []string{"葛城"}, true},
		{"ｌｏｎｇ", []string{"a long name"}, true},
		{"straße", []string{"STRASSE"}, true},
		{"bär", []string{"Ba\u0308r"}, true},
		{"стас", []string{"Стасик"}, true},
		{"cafe", []string{"Le Café"}, true},
		{"CAFÉ", []string{"cafe"}, true},
		{"istanbul", []string{"İSTANBUL"}, true},
		{"ısparta", []string{"ISPARTA"}, true},
		{"lodz", []string{"Łódź"}, true},
		{"tien", []string{"tiến"}, true},
		{"αθηνα", []string{"Αθήνα"}, true},
		{"еще", []string{"Ещё"}, true},
		{"мои", []string{"мой"}, false}, // another letter
		{"か", []string{"が"}, false},
		{"คน", []string{"คืน"}, false},
		{"don't", []string{"I don’t know"}, true},
		{"don’t", []string{"I don't know"}, true},
		{"\"so\"", []string{"“So”"}, true},
		{"well-known", []string{"well‑known"}, true},
		{"cooperate", []string{"co\u00ADoperate"}, true},
		{"❤", []string{"❤\uFE0F"}, true},
		{"ann baker", []string{"Ann", "", "the baker"}, true},
		{"annthe", []string{"Ann", "the baker"}, false}, // a word cannot span two texts
		{"%", []string{"anything"}, false},
	} {
		if got := Of(tc.q).In(tc.texts...); got != tc.want {
			t.Errorf("%q in %q: %v", tc.q, tc.texts, got)
		}
	}
	if w := Of(" \t\n\x00 "); len(w) > 0 {
		t.Errorf("nothing has the words %q", w)
	}
}

func FuzzFolded(f *testing.F) {
	f.Add("Hello")
	f.Add("ÄÖÜ ﬁ Ⅷ")
	f.Fuzz(func(t *testing.T, s string) {
		if once := folded(s); folded(once) != folded(folded(once)) {
			t.Errorf("%q is folded to %q, and then to %q", s, once, folded(once))
		}
	})
}
