package password_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stoa-dev/stoa/internal/accounts/password"
)

func TestCheck_RefusesCommonPasswords(t *testing.T) {
	for _, tt := range []struct {
		password string
		want     error
	}{
		{"password", password.ErrCommon},
		{"Password", password.ErrCommon},
		{"PassWord1!", password.ErrCommon},
		{"p@ssw0rd", password.ErrCommon},
		{"12345678", password.ErrCommon},
		{"87654321", password.ErrCommon},
		{"1234567890987", password.ErrCommon},
		{"qwertyuiop", password.ErrCommon},
		{"1qaz2wsx3edc", password.ErrCommon},
		{"abcd1234", password.ErrCommon},
		{"asdfghjkl99", password.ErrCommon},
		{"        ", password.ErrCommon},
		{"aaaaaaaaaaaa", password.ErrCommon},
		{"abababababab", password.ErrCommon},
		{"stoa1stoa1stoa1", password.ErrCommon},
		{"sunshine2026", password.ErrCommon},
		{"test1234", password.ErrCommon},
		{"ann.lee@example.org", password.ErrCommon},
		{"Ann.Lee@Example.org1", password.ErrCommon},
		{"ann.lee99", password.ErrCommon},
		{"Annabelle Lee", password.ErrCommon},
		{"short 7", password.ErrLength},
		{"短短短短短短短", password.ErrLength},
		{strings.Repeat("long ", 26), password.ErrLength},
		{"a bell\a rings", password.ErrText},
		{"not utf-8 \xff", password.ErrText},

		{"correct horse", nil},
		{"battery staple", nil},
		{"x7$kQ9!z", nil},
		{"我的密码很长很长", nil},
		{"sunshine over 26 hills", nil},
		{"ann.lee went to sea", nil},
		{strings.Repeat("long", 31) + "est.", nil},
	} {
		if _, err := password.Check(tt.password, "ann.lee@example.org", "Annabelle Lee"); !errors.Is(err, tt.want) {
			t.Errorf("%q: got %v, want %v", tt.password, err, tt.want)
		}
	}
}

func TestNormalize_EqualForEquivalentText(t *testing.T) {
	composed, err := password.Check("caf\u00e9 au lait")
	if err != nil {
		t.Fatal(err)
	}
	for _, written := range []string{"cafe\u0301 au lait", "caf\u00e9\u00a0au\u3000lait"} {
		if got, err := password.Normalize(written); got != composed || err != nil {
			t.Errorf("%+q: got %+q, %v, want %+q", written, got, err, composed)
		}
	}
	if got, _ := password.Normalize("Caf\u00e9 au lait"); got == composed {
		t.Error("a capital letter makes no difference")
	}
}

func FuzzCheck(f *testing.F) {
	for _, s := range []string{"password", "我的密码很长很长", "\xff", "1qaz2wsx", strings.Repeat("a", 128)} {
		f.Add(s, "ann@example.org")
	}
	f.Fuzz(func(t *testing.T, s, known string) {
		normal, err := password.Check(s, known)
		if err != nil {
			return
		}
		if again, err := password.Normalize(normal); again != normal || err != nil {
			t.Errorf("%+q becomes %+q, and that %+q, %v", s, normal, again, err)
		}
	})
}
