package transfers

import (
	"errors"
	"mime"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

func TestName_ValidOnAllSystems(t *testing.T) {
	for name, want := range map[string]string{
		"holiday.jpg":                    "holiday.jpg",
		"假期 照片.jpg":                      "假期 照片.jpg",
		"../../etc/passwd":               "passwd",
		`C:\Users\ann\report.pdf`:        "report.pdf",
		"/":                              "",
		"..":                             "",
		" . ":                            "",
		"":                               "",
		"\u3164":                         "",
		"\u2800.txt":                     "",
		".bashrc":                        "bashrc",
		"a\x00b\r\nc.txt":                "abc.txt",
		"cod\u202egpj.exe":               "codgpj.exe",
		"a\u2028b":                       "ab",
		`<x>:"y|z?*`:                     "_x___y_z__",
		"nul":                            "_nul",
		"CON.txt":                        "_CON.txt",
		"com1.tar.gz":                    "_com1.tar.gz",
		"company.txt":                    "company.txt",
		"x\xff.txt":                      "",
		"no\u00a0break":                  "no break",
		strings.Repeat("é", 200) + ".md": strings.Repeat("é", 126) + ".md",
	} {
		got, err := cleanName(name)
		if got != want || (want == "") != errors.Is(err, ErrName) {
			t.Errorf("%q: got %q, %v, want %q", name, got, err, want)
		}
	}
}

func FuzzNames(f *testing.F) {
	f.Add("a/b\\c\x00\u202e.txt")
	f.Add(strings.Repeat("é.", 300))
	f.Fuzz(func(t *testing.T, name string) {
		got, err := cleanName(name)
		if err != nil {
			return
		}
		if got == "" || len(got) > maxName || !utf8.ValidString(got) || strings.ContainsAny(got, `/\<>:"|?*`) || strings.HasPrefix(got, ".") ||
			strings.ContainsFunc(got, unicode.IsControl) {
			t.Errorf("%q became %q", name, got)
		}
		if again, err := cleanName(got); err != nil || again != got {
			t.Errorf("%q became %q, and that %q, %v", name, got, again, err)
		}
		kind, params, err := mime.ParseMediaType(disposition("attachment", got))
		if err != nil || kind != "attachment" || params["filename"] != got {
			t.Errorf("%q is read as %s %q, %v", disposition("attachment", got), kind, params["filename"], err)
		}
		for _, c := range []byte(disposition("attachment", got)) {
			if c < ' ' || c > '~' {
				t.Errorf("%q is no header", disposition("attachment", got))
			}
		}
	})
}

func TestLink_ValidForFileUserAndTime(t *testing.T) {
	inBubble(t, Settings{}, func(t *testing.T, w *world) {
		data := random(100)
		id := w.begin(data).ID
		_, err := w.send(id, piece(data, 0))
		w.must(err)
		link, err := w.Link(t.Context(), w.users[1], id)
		w.must(err)
		good := strings.TrimPrefix(link.URL, "/v1/files/")
		fetch := func(n *world, link string) error {
			f, err := n.Fetch(t.Context(), link)
			if err == nil {
				w.must(f.Content.Close())
			}
			return err
		}
		for what, n := range map[string]*world{"here": w, "on another node": w.neighbour()} {
			if err := fetch(n, good); err != nil {
				t.Errorf("%s: %v", what, err)
			}
		}
		for i := range good { // every character is signed
			for _, c := range []byte("A0-_") {
				if bad := good[:i] + string(c) + good[i+1:]; bad != good && fetch(w, bad) == nil {
					// The last character has two bits that are not part of the signature.
					if i != len(good)-1 {
						t.Errorf("character %d can be %q", i, c)
					}
				}
			}
		}
		until, elsewhere := link.Expires, signer("another secret, which is as long!")
		for what, bad := range map[string]string{
			"cut":                   good[:len(good)-1],
			"longer":                good + "A",
			"empty":                 "",
			"of another secret":     elsewhere.link(claim{id: id, variant: whole, user: w.users[1], until: until.Time}),
			"of a user who is none": w.signer.link(claim{id: id, variant: whole, user: w.users[2], until: until.Time}),
			"of no transfer":        w.signer.link(claim{id: ids.New[Transfer](), variant: whole, user: w.users[1], until: until.Time}),
		} {
			if err := fetch(w, bad); !errors.Is(err, ErrLink) && !errors.Is(err, ErrGone) {
				t.Errorf("a link that is %s: %v", what, err)
			}
		}
		w.previous = elsewhere // while the secret is rotated
		for what, link := range map[string]string{"secret": good,
			"previous secret": elsewhere.link(claim{id: id, variant: whole, user: w.users[1], until: until.Time})} {
			if err := fetch(w, link); err != nil {
				t.Errorf("a link of the %s: %v", what, err)
			}
		}
		bubble.Sleep(w.cfg.LinkFor - 2*time.Second)
		if err := fetch(w, good); err != nil {
			t.Errorf("just in time: %v", err)
		}
		bubble.Sleep(3 * time.Second)
		if err := fetch(w, good); !errors.Is(err, ErrLink) {
			t.Errorf("too late: %v", err)
		}
		fresh, err := w.Link(t.Context(), w.users[0], id) // the sender can download as well
		w.must(err)
		_, err = w.Cancel(t.Context(), w.users[1], id)
		w.must(err)
		if err := fetch(w, strings.TrimPrefix(fresh.URL, "/v1/files/")); !errors.Is(err, ErrGone) {
			t.Errorf("of what was removed: %v", err)
		}
	})
}

func TestSettings_RefuseInvalidValues(t *testing.T) {
	if err := (Settings{}).Validate(); err != nil {
		t.Error(err)
	}
	for _, s := range []Settings{{Storage: "ftp://x"}, {MaxSize: -1}, {MaxSize: 1 << 50},
		{DayBytes: -1}, {DayFiles: -1}, {Open: -1}, {OfferFor: time.Second}, {IdleFor: 1}, {KeepFor: 1}, {LinkFor: time.Second}, {ScanTime: 1}} {
		if s.Validate() == nil {
			t.Errorf("%+v is taken", s)
		}
	}
	if _, _, ok := parsePart(newPart(ids.New[Transfer](), 77, time.Now()).name); !ok {
		t.Error("a part's name cannot be read")
	}
	for _, name := range []string{"", "x", "a/b", ids.New[accounts.User]().String() + "/1-2", ids.New[accounts.User]().String() + "/1-*-2",
		"lost+found/1-2-3"} {
		if _, _, ok := parsePart(name); ok {
			t.Errorf("%q is taken for a part", name)
		}
	}
}
