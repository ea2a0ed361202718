package wholeserver

import (
	"strings"
	"testing"

	"github.com/stoa-dev/stoa/internal/testkit"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

func TestProblemsAndMailsSpeakTheCallersLanguage(t *testing.T) {
	s := testkit.Start(t)
	const chinese = "zh-CN,zh;q=0.9,en;q=0.8"
	for _, tt := range []struct {
		body  string
		wants []string
	}{
		{`{"email":"ann@example.org","code":"000000","name":"Ann"}`,
			[]string{`"code":"auth.code_wrong"`, `"title":"无法处理的请求"`, `"detail":"验证码错误、已使用或已过期，请重新获取。"`, `"message":"错误、已使用或已过期"`}},
		{`{"email":"ann","code":"00","name":"Ann","more":1}`,
			[]string{`"code":"request.invalid"`, `"message":"应为邮箱地址"`, `"message":"应符合格式 ^[0-9]{6}$"`, `"message":"未知字段"`}},
		{`{`, []string{`"code":"request.malformed"`, `"detail":"请求格式有误。"`}},
	} {
		_, header, body := s.Call(t, nil, "POST", "/v1/auth/register", tt.body, "Accept-Language", chinese)
		if header.Get("Content-Language") != "zh-CN" || !strings.Contains(strings.Join(header.Values("Vary"), ","), "Accept-Language") {
			t.Errorf("%s: headers %v", tt.body, header)
		}
		for _, want := range tt.wants {
			if !strings.Contains(body, want) {
				t.Errorf("%s: got %s, want %s", tt.body, body, want)
			}
		}
	}
	if _, header, body := s.Call(t, nil, "GET", "/v1/none", "", "Accept-Language", "fr"); header.Get("Content-Language") != "en" ||
		!strings.Contains(body, "There is nothing at this path.") {
		t.Errorf("another language: got %v %s", header, body)
	}

	for lang, want := range map[string]string{chinese: "注册验证码", "en": "Your code to register"} {
		email := "of-" + lang[:2] + "@example.org"
		s.Call(t, nil, "POST", "/v1/auth/codes", `{"email":"`+email+`","purpose":"register"}`, "Accept-Language", lang)
		eventually.True(t, "a mail", func() bool {
			mails, err := s.Client(t).DevMails(t.Context(), email)
			if err == nil && len(mails) > 0 && (mails[0].Subject != want || len(mails[0].Code) != 6) {
				t.Fatalf("got %+v, want %s", mails[0], want)
			}
			return err == nil && len(mails) > 0
		})
	}
}
