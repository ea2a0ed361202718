package accounts

import (
	"strings"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/internal/base/ids"
)

func TestCleanName(t *testing.T) {
	for in, want := range map[string]string{"Ann": "Ann", "  李雷 ": "李雷", strings.Repeat("é", 40): strings.Repeat("é", 40), "": "",
		" \u3000": "", "A\u202enn": "", strings.Repeat("é", 41): ""} {
		got, err := cleanName(in)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("cleanName(%q): got %q, %v, want %q", in, got, err, want)
		}
	}
	if got, err := cleanDevice(" "); got != "" || err != nil {
		t.Errorf("a device without a name: got %q, %v", got, err)
	}
}

func TestParseToken(t *testing.T) {
	m := mint("0123456789abcdef0123456789abcdef")
	user, device := ids.New[User](), ids.New[Session]()
	access, refresh := m.pair(user, device, "seed", "nonce")
	a, okA := parseToken(accessPrefix, access)
	r, okR := parseToken(refreshPrefix, refresh)
	if !okA || !okR || a.user != user || a.device != device || r.user != user || r.device != device {
		t.Fatalf("got %+v %t and %+v %t for %s and %s", a, okA, r, okR, user, device)
	}
	for _, wrong := range []string{"", access[1:], access + "A", refresh, strings.Replace(access, ".", "/", 1),
		"sa_" + strings.Repeat("é", 36)} {
		if _, ok := parseToken(accessPrefix, wrong); ok {
			t.Errorf("parseToken took %q for an access token", wrong)
		}
	}
}

func TestPair_DependsOnSeedNonceAndSecret(t *testing.T) {
	m := mint("0123456789abcdef0123456789abcdef")
	user, device := ids.New[User](), ids.New[Session]()
	a, r := m.pair(user, device, "seed", "nonce")
	if a2, r2 := m.pair(user, device, "seed", "nonce"); a2 != a || r2 != r {
		t.Error("the same seed and nonce made another pair")
	}
	seen := map[string]bool{a: true, r: true}
	for _, p := range []struct {
		m           mint
		u           ID
		d           DeviceID
		seed, nonce string
	}{
		{mint("another secret of thirty-two byte"), user, device, "seed", "nonce"},
		{m, ids.New[User](), device, "seed", "nonce"},
		{m, user, ids.New[Session](), "seed", "nonce"},
		{m, user, device, "other", "nonce"},
		{m, user, device, "seed", "other"},
		{m, user, device, "seedn", "once"},
	} {
		a, r := p.m.pair(p.u, p.d, p.seed, p.nonce)
		if secret := a[29:]; seen[a] || seen[r] || seen[secret] {
			t.Errorf("%+v made a pair seen before", p)
		}
		seen[a], seen[r] = true, true
	}
}

func TestIssued_RecognizesOwnTokens(t *testing.T) {
	m := mint("0123456789abcdef0123456789abcdef")
	user, device := ids.New[User](), ids.New[Session]()
	_, text := m.pair(user, device, "seed", "nonce")
	real, _ := parseToken(refreshPrefix, text)
	if !m.issued(real) {
		t.Error("a token just made is not known as issued")
	}
	foreign, _ := parseToken(refreshPrefix, text)
	foreign.device = ids.New[Session]()
	_, text = mint("another secret of thirty-two byte").pair(user, device, "seed", "nonce")
	guess, _ := parseToken(refreshPrefix, text)
	if m.issued(foreign) || m.issued(guess) {
		t.Error("a token of another device or server passes for issued")
	}
}

func TestSettings_ReturnAllFaults(t *testing.T) {
	if err := (Settings{}).Validate(); err != nil {
		t.Errorf("the defaults: %v", err)
	}
	err := Settings{AccessLife: time.Hour, RefreshLife: time.Minute, CodeLife: 2 * time.Hour, Grace: 91 * 24 * time.Hour,
		Limits: Limits{LoginLock: 48 * time.Hour}}.Validate()
	for _, want := range []string{"refresh_life", "code_life", "grace", "login_lock"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want it to name %s", err, want)
		}
	}
	if _, err := New(Config{Secret: []byte("short")}); err == nil || !strings.Contains(err.Error(), "secret") ||
		strings.Contains(err.Error(), "short") {
		t.Errorf("a short secret: got %v", err)
	}
}
