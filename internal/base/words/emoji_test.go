package words

import "testing"

func TestEmoji_IsExactlyOneSequenceInOneForm(t *testing.T) {
	for in, want := range map[string]string{
		"👍": "👍", "👍🏽": "👍🏽", "\u2764": "\u2764\uFE0F", "\u2764\uFE0F": "\u2764\uFE0F", "👍\uFE0F": "👍", "\u261D🏽": "\u261D🏽", "🏽": "🏽",
		"👩\u200D🚀": "👩\u200D🚀", "👩🏽\u200D\u2764\u200D💋\u200D👩🏿": "👩🏽\u200D\u2764\uFE0F\u200D💋\u200D👩🏿",
		"👨\u200D👩\u200D👧\u200D👦": "👨\u200D👩\u200D👧\u200D👦",
		"🏳\u200D🌈":               "🏳\uFE0F\u200D🌈", "🇨🇰": "🇨🇰", "🇪🇺": "🇪🇺", "🇽🇰": "🇽🇰", "1\u20E3": "1\uFE0F\u20E3",
		"#\uFE0F\u20E3": "#\uFE0F\u20E3", "©": "©\uFE0F",
		"🏴\U000E0067\U000E0062\U000E0073\U000E0063\U000E0074\U000E007F": "🏴\U000E0067\U000E0062\U000E0073\U000E0063\U000E0074\U000E007F",
		"\U0001FADF": "\U0001FADF", "\U0001FAFD": "\U0001FAFD", "\U0001FAFD🏽": "\U0001FAFD🏽",

		"": "", "a": "", "1": "", "ⒻⓊⒸⓀ": "", "Ⓕ": "", "🇫🇺🇨🇰": "", "🇫🇺": "", "🇨": "", "👍👍👍👍👍👍👍👍": "", "👍🏽🏽": "", "🚀🏽": "", "㈱": "", "👍\u200D": "",
		"\u200D👍": "", "\uFE0F": "",
		"❤\uFE0E": "", "❤\uFE0F\uFE0F": "", "12\u20E3": "", "🏴\U000E0067\U000E007F": "", "👍 ": "", "★": "", "\U0001F000": "", "👍\xff": "",
		"👍\u200D👍\u200D👍\u200D👍\u200D👍": "",
	} {
		if got, ok := Emoji(in); ok != (want != "") || ok && got != want {
			t.Errorf("Emoji(%+q): got %+q, %t, want %+q", in, got, ok, want)
		}
	}
}

func TestBlank_ReportsInvisibleTexts(t *testing.T) {
	for in, want := range map[string]bool{
		"": true, " \n\t": true, "\u200B": true, "\u3164": true, "\u2800": true, "\U0001D159": true, "\U00013441\U00013442": true, "\u00AD": true,
		"\uFE0F": true, "\u2060\u3000\u200D": true, "\uFEFF": true, "\u202E": true, "\u0301": true,
		"a": false, "\u200Ba": false, "👍\uFE0F": false, "。": false, "\U0001FAFD": false, "\uF8FF": false,
	} {
		if got := Blank(in); got != want {
			t.Errorf("Blank(%+q): got %t", in, got)
		}
	}
}
