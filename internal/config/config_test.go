package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

type smtp struct {
	Host     string        `koanf:"host" help:"mail server"`
	Port     int           `koanf:"port" default:"587" help:"its port"`
	Password string        `koanf:"password" secret:"true" help:"its password"`
	Timeout  time.Duration `koanf:"timeout" default:"10s" help:"how long one mail may take"`
}

func (s *smtp) Validate() error {
	var faults []error
	if s.Port < 1 {
		faults = append(faults, &Fault{Key: "port", Text: "want at least 1"})
	}
	if s.Host == "" && s.Password != "" {
		faults = append(faults, errors.New("a password without a host"))
	}
	return errors.Join(faults...)
}

type limits struct {
	Body  netip.Prefix  `koanf:"body" default:"10.0.0.0/8" help:"one network"`
	Users uint16        `koanf:"users" default:"100" help:"how many"`
	Every time.Duration `koanf:"every" default:"1h" zero:"never" help:"how often"`
}

func (l limits) Validate() error {
	if l.Users == 13 {
		return &Fault{Key: "users", Text: "13 is unlucky"}
	}
	return nil
}

type settings struct {
	Addr      string         `koanf:"addr" default:"127.0.0.1:8080" help:"where to listen"`
	KeyPrefix string         `koanf:"key_prefix" default:"stoa" help:"put before every key"`
	Redis     string         `koanf:"redis" default:"embedded" secret:"url" help:"where the keys are"`
	Dev       bool           `koanf:"dev" default:"true" help:"show mails"`
	Share     float64        `koanf:"share" default:"0.5" help:"of what | whatever"`
	Format    string         `koanf:"format" default:"text" enum:"text,json" help:"of the log"`
	Proxies   []netip.Prefix `koanf:"proxies" help:"whom to trust"`
	Roles     []string       `koanf:"roles" default:"api,worker" help:"what this node does"`
	SMTP      smtp           `koanf:"smtp"`
	limits
	Log func() // no tag: no setting
}

func write(t *testing.T, text string) string {
	t.Helper()
	t.Chdir(t.TempDir())
	if err := os.WriteFile("stoa.toml", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return "stoa.toml"
}

func faults(err error) []string {
	var out []string
	for _, f := range Faults(err) {
		out = append(out, f.Error())
	}
	return out
}

func TestLoad_LaterSourcesTakePrecedence(t *testing.T) {
	file := write(t, `
addr = "file:1"
key_prefix = "file"
share = 0.25
proxies = ["10.0.0.0/8", "::1/128"]

[smtp]
host = "mail.file"
port = 25
`)
	var got settings
	rep, err := Load(&got, Sources{
		File:  file,
		Env:   []string{"STOA_ADDR=env:2", "STOA_SMTP_HOST=mail.env", "STOA_DEV=off", "STOA_ROLES=api, mail", "STOA_FORMAT=", "PATH=/bin"},
		Flags: map[string]string{"addr": "flag:3", "smtp.timeout": "1d", "body": "10.1.0.0/16"},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := settings{
		Addr: "flag:3", KeyPrefix: "file", Redis: "embedded", Dev: false, Share: 0.25, Format: "text",
		Proxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("::1/128")},
		Roles:   []string{"api", "mail"},
		SMTP:    smtp{Host: "mail.env", Port: 25, Timeout: 24 * time.Hour},
		limits:  limits{Body: netip.MustParsePrefix("10.1.0.0/16"), Users: 100, Every: time.Hour},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("Load filled in\n%+v, want\n%+v", got, want)
	}
	for key, want := range map[string]Value{
		"addr":         {Value: "flag:3", Origin: "--addr"},
		"key_prefix":   {Value: "file", Origin: "stoa.toml:3"},
		"redis":        {Value: "embedded", Origin: "default"},
		"proxies":      {Value: "10.0.0.0/8,::1/128", Origin: "stoa.toml:5"},
		"smtp.host":    {Value: "mail.env", Origin: "STOA_SMTP_HOST"},
		"smtp.port":    {Value: "25", Origin: "stoa.toml:9"},
		"smtp.timeout": {Value: "1d", Origin: "--smtp-timeout"},
		"format":       {Value: "text", Origin: "default"},
	} {
		got, ok := rep.Get(key)
		if !ok || got.Value != want.Value || got.Origin != want.Origin {
			t.Errorf("%s: got %q from %q, want %q from %q", key, got.Value, got.Origin, want.Value, want.Origin)
		}
	}
}

func TestLoad_ReportsEveryFaultWithItsOrigin(t *testing.T) {
	file := write(t, `adr = "x"
Format = "xml"
roles = "api"
[smtp]
timeout = [1, 2]
prot = 25
pasword = "hunter2"
[log]
level = { deep = 1 }
`)
	var got settings
	_, err := Load(&got, Sources{
		File:  file,
		Env:   []string{"STOA_SMTP_PORT=many", "STOA_PROXIES=10.0.0.0/8,here", "STOA_USERS=65536", "STOA_FORMAT=xml"},
		Flags: map[string]string{"dev": "maybe", "share": "half", "body": "there", "every": "fortnight"},
	})
	want := []string{
		"stoa.toml:1: adr: no such setting; did you mean addr?",
		"stoa.toml:2: Format: no such setting; did you mean format?",
		"stoa.toml:6: smtp.prot: no such setting; did you mean smtp.port?",
		"stoa.toml:7: smtp.pasword: no such setting; did you mean smtp.password?",
		"stoa.toml:9: log.level.deep: no such setting",
		`--dev: "maybe" is not true or false`,
		`--share: "half" is not a number`,
		`STOA_FORMAT: "xml" is not one of text, json`,
		`STOA_PROXIES: netip.ParsePrefix("here"): no '/'`,
		`STOA_SMTP_PORT: "many" is not a whole number`,
		"stoa.toml:5: smtp.timeout: want one duration, not a list",
		`--body: netip.ParsePrefix("there"): no '/'`,
		`STOA_USERS: "65536" is not a whole number from 0 to 65535`,
		`--every: "fortnight" is not a duration such as 90s, 15m, 12h or 30d`,
	}
	if got := faults(err); !slices.Equal(got, want) {
		t.Errorf("got  %s\nwant %s", strings.Join(got, "\n     "), strings.Join(want, "\n     "))
	}
}

func TestLoad_JoinsValidateOfEveryStruct(t *testing.T) {
	var got settings
	_, err := Load(&got, Sources{
		File:  write(t, "[smtp]\npassword = \"hunter2\"\n"),
		Env:   []string{"STOA_SMTP_PORT=-1"},
		Flags: map[string]string{"users": "13"},
	})
	want := []string{"STOA_SMTP_PORT: want at least 1", "smtp: a password without a host", "--users: 13 is unlucky"}
	if got := faults(err); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestLoad_UnreadableFileIsAFault(t *testing.T) {
	for text, want := range map[string]string{
		"addr = 'a'\naddr = [": "stoa.toml:2: not TOML: ",
		"addr 'a'":             "stoa.toml:1: not TOML: ",
	} {
		_, err := Load(&settings{}, Sources{File: write(t, text)})
		if got := faults(err); len(got) != 1 || !strings.HasPrefix(got[0], want) {
			t.Errorf("Load of %q: got %q, want one that begins with %q", text, got, want)
		}
	}
	_, err := Load(&settings{}, Sources{File: "nowhere.toml"})
	if got, want := faults(err), []string{"nowhere.toml: no such file or directory"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestReport_MasksSecrets(t *testing.T) {
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("hunter2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, redis := range []string{
		"rediss://stoa:hunter2@host:6379/1", "redis://host?password=hunter2", "redis-sentinel://:hunter2@a,b:2/name",
		"redis://:hunter2%zz@host", "stoa:hunter2@host", "redis://stoa:2024#hunter2@host/1", "redis://:12/hunter2@host",
		"redis://stoa:/hunter2@host/1",
		"redis://stoa:12?hunter2@host/1",
	} {
		var got settings
		rep, err := Load(&got, Sources{Env: []string{"STOA_REDIS=" + redis, "STOA_SMTP_PASSWORD_FILE=" + file, "STOA_SMTP_HOST=h"}})
		if err != nil {
			t.Fatal(err)
		}
		if got.SMTP.Password != "hunter2" || got.Redis != redis {
			t.Errorf("Load filled in %q and %q, want hunter2 and %q", got.SMTP.Password, got.Redis, redis)
		}
		for _, asJSON := range []bool{false, true} {
			var out bytes.Buffer
			if err := rep.Print(&out, asJSON); err != nil {
				t.Fatal(err)
			}
			if strings.Contains(out.String(), "hunter2") {
				t.Errorf("Print(json %v) shows the secret of %s:\n%s", asJSON, redis, &out)
			}
			if !strings.Contains(out.String(), "STOA_SMTP_PASSWORD_FILE") {
				t.Errorf("Print(json %v) does not say where the password came from:\n%s", asJSON, &out)
			}
		}
	}

	var got settings
	rep, err := Load(&got, Sources{Env: []string{"STOA_REDIS=rediss://stoa:hunter2@host:6379/1"}})
	if v, _ := rep.Get("redis"); err != nil || v.Value != "rediss://stoa:*****@host:6379/1" {
		t.Errorf("a URL is shown as %q (%v), want all but its password", v.Value, err)
	}
	_, err = Load(&got, Sources{Env: []string{"STOA_SMTP_HOST=h", "STOA_SMTP_PASSWORD=hunter2", "STOA_SMTP_PASSWORD_FILE=" + file}})
	if got, want := faults(err), []string{
		"STOA_SMTP_PASSWORD_FILE: is set together with STOA_SMTP_PASSWORD; set only one of them"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	_, err = Load(&got, Sources{File: write(t, "smtp.password = ['hunter2']")})
	if got, want := faults(err), []string{"stoa.toml:1: smtp.password: want one text, not a list"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestLoad_FaultOfASecretHidesItsValue(t *testing.T) {
	var got struct {
		Pin   int           `koanf:"pin" secret:"true"`
		Net   netip.Prefix  `koanf:"net" secret:"true"`
		Until time.Duration `koanf:"until" secret:"true"`
		Word  string        `koanf:"word" secret:"true" enum:"open,shut"`
	}
	_, err := Load(&got, Sources{Env: []string{"STOA_PIN=hunter2", "STOA_NET=hunter2", "STOA_UNTIL=hunter2", "STOA_WORD=hunter2"}})
	want := []string{"STOA_PIN: want a whole number", "STOA_NET: not a prefix", "STOA_UNTIL: want a duration such as 90s, 15m, 12h or 30d",
		"STOA_WORD: want one of open, shut"}
	if got := faults(err); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	_, err = Load(&settings{}, Sources{Env: []string{"STOA_SMTP_HOST=h", "STOA_SMTP_PASSWORD_FILE=nowhere"}})
	if got, want := faults(err), []string{"STOA_SMTP_PASSWORD_FILE: no such file or directory"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestLocate_AddsTheOriginOfLaterFaults(t *testing.T) {
	var got settings
	rep, err := Load(&got, Sources{File: write(t, "# of a mail server\n[smtp]\n# host = \"mail\"\n\n[log]\n"),
		Env: []string{"STOA_SHARE=0.7"}})
	if err != nil {
		t.Fatalf("tables of which all is commented out: %v", err)
	}
	err = rep.Locate(errors.Join(&Fault{Key: "share", Text: "too much"}, &Fault{Key: "shares", Text: "too many"}))
	if got, want := faults(err), []string{"STOA_SHARE: too much", "shares: too many"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestLoad_WarnsOfMisspeltVariables(t *testing.T) {
	rep, err := Load(&settings{}, Sources{Env: []string{"STOA_ADRR=x", "STOA_REDIS_URL=redis://r", "STOA_SMTP_HOST_FILE=/run/secrets/host",
		"STOA_PROXY=x", "STOA_SMPT_PORT=25",
		"STOA_PORT=tcp://10.0.0.1:80", "STOA_SERVICE_HOST=10.0.0.1", "STOA_SERVICE_PORT_HTTP=80", "STOA_PORT_80_TCP_ADDR=10.0.0.1",
		"STOA_REDIS_SERVICE_HOST=10.0.0.2", "STOA_REDIS_PORT=tcp://10.0.0.2:6379"}})
	want := []string{"STOA_ADRR is not a setting; did you mean STOA_ADDR?", "STOA_PROXY is not a setting",
		"STOA_REDIS_URL is not a setting; did you mean STOA_REDIS?",
		"STOA_SMPT_PORT is not a setting; did you mean STOA_SMTP_PORT?", "STOA_SMTP_HOST_FILE is not a setting; did you mean STOA_SMTP_HOST?"}
	if err != nil || !slices.Equal(rep.Warnings, want) {
		t.Errorf("got warnings %q and %v, want %q", rep.Warnings, err, want)
	}
	var out bytes.Buffer
	if err := rep.Print(&out, false); err != nil || !strings.Contains(out.String(),
		"\nwarning: STOA_ADRR is not a setting; did you mean STOA_ADDR?\n") {
		t.Errorf("Print: %v\n%s", err, &out)
	}
}

// An agent without a value, or with a full disk, leaves an empty file.
func TestLoad_EmptySecretFileIsAFault(t *testing.T) {
	file := filepath.Join(t.TempDir(), "redis")
	if err := os.WriteFile(file, []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Load(&settings{}, Sources{Env: []string{"STOA_REDIS_FILE=" + file}})
	if got, want := faults(err), []string{"STOA_REDIS_FILE: the file " + file + " is empty"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestReference_ListsEverySetting(t *testing.T) {
	got := Reference(&settings{})
	var keys []string
	for _, s := range got {
		keys = append(keys, s.Key)
	}
	want := []string{"addr", "key_prefix", "redis", "dev", "share", "format", "proxies", "roles", "smtp.host", "smtp.port",
		"smtp.password", "smtp.timeout", "body", "users", "every"}
	if !slices.Equal(keys, want) {
		t.Errorf("Reference: got %q, want %q", keys, want)
	}
	if got, want := got[1], (Setting{Key: "key_prefix", Env: "STOA_KEY_PREFIX", Flag: "key-prefix", Type: "text", Default: "stoa",
		Help: "put before every key"}); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	var out bytes.Buffer
	if err := Markdown(&out, got); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"| `dev` | `--[no-]dev` | `STOA_DEV` | switch | `true` | show mails |\n",
		"| `share` | `--share` | `STOA_SHARE` | number | `0.5` | of what \\| whatever |\n",
		"| `format` | `--format` | `STOA_FORMAT` | text, json | `text` | of the log |\n",
		"| `proxies` | `--proxies` | `STOA_PROXIES` | list of prefix | – | whom to trust |\n",
		"| `smtp.password` | `--smtp-password` | `STOA_SMTP_PASSWORD`, `STOA_SMTP_PASSWORD_FILE` | text | – | its password |\n",
		"| `body` | `--body` | `STOA_BODY` | prefix | `10.0.0.0/8` | one network |\n",
		"| `every` | `--every` | `STOA_EVERY` | duration | `1h` | how often; 0: never |\n",
	} {
		if !strings.Contains(out.String(), line) {
			t.Errorf("the reference lacks %s in\n%s", line, &out)
		}
	}
}

func TestPrint_WritesATableOrJSON(t *testing.T) {
	rep, err := Load(&settings{}, Sources{Env: []string{"STOA_ADDR=:0"}})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := rep.Print(&out, false); err != nil {
		t.Fatal(err)
	}
	if want := "SETTING         VALUE        FROM\naddr            :0           STOA_ADDR\n" +
		"key_prefix      stoa         default\n"; !strings.HasPrefix(out.String(), want) {
		t.Errorf("Print: got\n%swant it to begin with\n%s", &out, want)
	}
	out.Reset()
	if err := rep.Print(&out, true); err != nil {
		t.Fatal(err)
	}
	var back Report
	if err := json.Unmarshal(out.Bytes(), &back); err != nil || !reflect.DeepEqual(&back, rep) {
		t.Errorf("the JSON reads back as %+v (%v), want %+v", back, err, rep)
	}
}

func TestLoad_PanicsOnInvalidTags(t *testing.T) {
	for what, dst := range map[string]any{
		"no pointer": settings{},
		"bad default": &struct {
			N int `koanf:"n" default:"x"`
		}{},
		"a channel": &struct {
			C chan int `koanf:"c"`
		}{},
		"not exported": &struct {
			n int `koanf:"n"`
		}{},
		"same variable": &struct {
			A string `koanf:"a_b"`
			B struct {
				B string `koanf:"b"`
			} `koanf:"a"`
		}{},
	} {
		t.Run(what, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("got no panic, want one")
				}
			}()
			Reference(dst)
		})
	}
}

func TestDefaults_ZeroIsTheDefaultUnlessTagged(t *testing.T) {
	var loaded, zeros settings
	if _, err := Load(&loaded, Sources{}); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(&zeros, Sources{Flags: map[string]string{"share": "0", "smtp.port": "0", "smtp.timeout": "0s", "users": "0",
		"every": "0s"}}); err != nil {
		t.Fatal(err)
	}
	want := loaded
	want.Every = 0
	if !reflect.DeepEqual(zeros, want) {
		t.Errorf("zeros in the sources: got\n%+v, want\n%+v", zeros, want)
	}
	made := settings{SMTP: smtp{Port: 25}}
	Defaults(&made)
	want = settings{Share: loaded.Share, Format: loaded.Format, SMTP: smtp{Port: 25, Timeout: loaded.SMTP.Timeout},
		limits: limits{Users: loaded.Users}}
	if !reflect.DeepEqual(made, want) {
		t.Errorf("made in code: got\n%+v, want\n%+v", made, want)
	}
}

func TestDistance_CountsASwapOnce(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "abc", 3}, {"addr", "adr", 1}, {"port", "prot", 1}, {"abc", "abc", 0}, {"kitten", "sitting", 3}} {
		if got := distance(c.a, c.b); got != c.want {
			t.Errorf("distance(%q, %q): got %d, want %d", c.a, c.b, got, c.want)
		}
	}
}
