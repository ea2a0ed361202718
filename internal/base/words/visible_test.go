package words

import (
	"strings"
	"testing"
)

func TestLine_IsTrimmedAndVisible(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"Ann", "Ann"}, {"  李雷 ", "李雷"}, {"👩\u200d🚀", "👩\u200d🚀"}, {strings.Repeat("é", 40), strings.Repeat("é", 40)},
		{"\u200d\u200d", ""}, {"A\u202enn", ""}, {"A\x00nn", ""}, {"A\nnn", ""}, {"a\xff", ""}, {strings.Repeat("é", 41), ""},
		// Blanks of other keyboards.
		{"山田　太郎", "山田 太郎"}, {"Ann\u00a0B.", "Ann B."}, {"\u202fAnn", "Ann"}, {"A\tnn", ""},
		// Emoji, flags, and shapes of an ideograph.
		{"ℹ\ufe0f Ann", "ℹ\ufe0f Ann"}, {"〰\ufe0f", "〰\ufe0f"}, {"\U0001FAE9", "\U0001FAE9"}, {"\U0001FAE9\u200d🔥", "\U0001FAE9\u200d🔥"},
		{"葛\U000e0100城", "葛\U000e0100城"},
		{"🏴\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f", "🏴\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f"},
		{"🏴\U000e0078\U000e007f", ""}, {"🏴\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074", ""}, {"A\U000e0061nn", ""}, {"A\U000e0100nn", ""},
		{"葛\U000e0100\U000e0101城", ""},
		// Invisible characters, and characters that hide others.
		{"\u3164", ""}, {"\u2800", ""}, {"\u115f", ""}, {"\u1160", ""}, {"\uffa0", ""}, {"An\u3164n", ""}, {"Ann\u2800", ""}, {"\ufe0f", ""},
		{"A\ufe0fnn", ""}, {"A\u034fnn", ""},
		// Joiners without effect.
		{"Ad\u200dmin", ""}, {"Ad\u200cmin", ""}, {"Ann\u200d", ""}, {"\u200dAnn", ""}, {"☕\u200dAnn", ""}, {"مر\u200d", ""},
		{"میرزا\u200cرضا", "میرزا\u200cرضا"}, {"क्\u200dष", "क्\u200dष"}, {"❤\ufe0f\u200d🔥", "❤\ufe0f\u200d🔥"},
		{"👩🏽\u200d❤\ufe0f\u200d👩", "👩🏽\u200d❤\ufe0f\u200d👩"}, {"1\ufe0f\u20e3", "1\ufe0f\u20e3"},
		// Marks upon marks.
		{"a" + strings.Repeat("\u0301", 39), ""}, {"a\u0301\u0301", ""}, {"a\u0301\u0302\u0303\u0304\u0306", ""},
		{"Nguyê\u0303n", "Nguyê\u0303n"}, {"ที่รัก", "ที่รัก"}, {"שָׁלוֹם", "שָׁלוֹם"},
	} {
		got, ok := Line(tt.in, 40)
		if ok != (tt.want != "") || ok && got != tt.want {
			t.Errorf("Line(%q): got %q, %t, want %q", tt.in, got, ok, tt.want)
		}
	}
	for _, blank := range []string{"", "   ", "\u3000"} {
		if got, ok := Line(blank, 40); got != "" || !ok {
			t.Errorf("Line(%q): got %q, %t", blank, got, ok)
		}
	}
}

// TestText_AcceptsTheBlanksOfKeyboards: lines that end with CR LF, tabs, and blanks other than spaces.
func TestText_AcceptsTheBlanksOfKeyboards(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"各位：\n　　周日八点训练。", "各位：\n  周日八点训练。"}, {"One\r\ntwo\r\n", "One\ntwo"}, {"One\ttwo", "One two"}, {"Venez\u202f!", "Venez !"},
		{"One\rtwo", ""}, {"One\u2028two", ""}, {"One\vtwo", ""}, {"a\xff", ""},
	} {
		got, ok := Text(tt.in, 200)
		if ok != (tt.want != "") || ok && got != tt.want {
			t.Errorf("Text(%q): got %q, %t, want %q", tt.in, got, ok, tt.want)
		}
	}
}
