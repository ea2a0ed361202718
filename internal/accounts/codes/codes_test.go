package codes

import (
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts/emails"
	"github.com/stoa-dev/stoa/internal/base/i18n"
)

func TestParsePurpose_RefusesChangeOfAddress(t *testing.T) {
	for in, want := range map[string]Purpose{"register": ForRegister, "login": ForLogin, "reset_password": ForResetPassword, "change_email": 0,
		"": 0} {
		got, err := ParsePurpose(in)
		if got != want || errors.Is(err, ErrPurpose) != (want == 0) {
			t.Errorf("ParsePurpose(%q): got %d, %v, want %d", in, got, err, want)
		}
	}
}

func TestMAC_BindsCodeToProof(t *testing.T) {
	m := MAC(mac)
	ann, bob := emails.Address{Key: "ann@example.org"}, emails.Address{Key: "bob@example.org"}
	const one, two = "V1StGXR8_Z5j", "V1StGXR8_Z5k"
	p := Proof{ann, ForChangeEmail, one}
	for _, other := range []Proof{{bob, ForChangeEmail, one}, {ann, ForLogin, one}, {ann, ForChangeEmail, two}, {ann, ForChangeEmail, ""}} {
		if m.codeHash(p, "123456") == m.codeHash(other, "123456") || m.emailHash(p) == m.emailHash(other) {
			t.Errorf("%+v and %+v have one hash", p, other)
		}
		if m.code(p, "a") == m.code(other, "a") && m.code(p, "b") == m.code(other, "b") {
			t.Errorf("%+v and %+v have one code", p, other)
		}
	}
	if m.codeHash(p, "123456") == m.codeHash(p, "123457") {
		t.Error("two codes have one hash")
	}
	if p.segment("") == (Proof{ann, ForChangeEmail, two}).segment("") {
		t.Error("two users' tries are counted together")
	}
}

func TestCode_HasSixDigits(t *testing.T) {
	p := to("ann@example.org", ForLogin)
	seen := map[string]bool{}
	for range 1000 {
		c := MAC(mac).code(p, rand.Text())
		if len(c) != 6 || strings.Trim(c, "0123456789") != "" {
			t.Fatalf("got the code %q", c)
		}
		seen[c] = true
	}
	if len(seen) < 990 {
		t.Errorf("1,000 codes had %d different values", len(seen))
	}
}

func TestCodeMail_WithoutCode(t *testing.T) {
	for _, tt := range []struct {
		p      Purpose
		known  bool
		isCode bool
	}{
		{ForRegister, false, true}, {ForRegister, true, false}, {ForLogin, true, true}, {ForLogin, false, false},
		{ForResetPassword, true, true}, {ForResetPassword, false, false}, {ForChangeEmail, false, true}, {ForChangeEmail, true, false},
	} {
		m := codeMail(i18n.English, tt.p, tt.known, "042917", 5*time.Minute)
		if got := strings.Contains(m.Text, "042917"); got != tt.isCode || strings.Contains(m.Subject, "042917") || m.Subject == "" {
			t.Errorf("purpose %d, known %t: the code is in %+v: %t, want %t", tt.p, tt.known, m, got, tt.isCode)
		}
	}
}

func TestSuspensions_AreSafeForConcurrentUse(t *testing.T) {
	var s suspensions
	now := time.Now()
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			network := fmt.Sprint("network ", i)
			for range 100 {
				s.add(network, now, time.Minute)
				if err := s.check(network, now); !errors.Is(err, ErrSuspended) {
					t.Errorf("%s: got %v, want ErrSuspended", network, err)
				}
			}
		})
	}
	all.Wait()
}
