package i18n

import (
	"context"
	"strings"
	"testing"
)

func TestAccepted_ReturnsTheBestLanguage(t *testing.T) {
	for header, want := range map[string]Language{
		"": English, "en": English, "zh": Chinese, "zh-CN,zh;q=0.9,en;q=0.8": Chinese, "zh-Hans-SG": Chinese,
		"en-GB,en;q=0.9,zh;q=0.1": English, "de": English, "de,zh;q=0.5": Chinese, "*": English, "zh;q=x": English, ";;;": English,
		"zh" + strings.Repeat(",en", 100): English,
	} {
		if got := Accepted(header); got != want {
			t.Errorf("%q: got %s, want %s", header, got, want)
		}
	}
}

func TestTranslate_TranslatesTextsAndFormats(t *testing.T) {
	for text, want := range map[string]string{
		"You cannot do this to yourself.":                          "不能对自己进行此操作。",
		"is before 2026-01-02, the first day that can be made up":  "早于 2026-01-02，即最早可补签的一天",
		"expected length <= 40":                                    "长度应不超过 40",
		"this has no translation":                                  "this has no translation",
		"This account is banned until 2026-11-23T00:00:00Z: spam.": "该账号已被封禁至 2026-11-23T00:00:00Z：spam。",
		"": "",
	} {
		if got := Chinese.Translate(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
		if got := English.Translate(text); got != text {
			t.Errorf("%q in English: got %q", text, got)
		}
	}
	if got := From(context.Background()); got != English {
		t.Errorf("a job speaks %s", got)
	}
}

// A translation has the arguments of its text, in the same order, because only the order identifies them.
func TestTranslations_HaveTheSameArguments(t *testing.T) {
	for text, said := range chinese {
		if got, want := strings.Join(verb.FindAllString(said, -1), " "), strings.Join(verb.FindAllString(text, -1), " "); got != want {
			t.Errorf("%q has the arguments %q, and its translation %q", text, want, got)
		}
		if said == "" || said == text {
			t.Errorf("%q has no translation", text)
		}
	}
}
