package mail

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"io"
	"math/big"
	"mime"
	"mime/quotedprintable"
	"net"
	netmail "net/mail"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/internal/config"
)

// server implements the part of SMTP that a mail needs. It records every command and every message.
type server struct {
	addr *net.TCPAddr
	cert *tls.Certificate // offers STARTTLS
	mute string           // does not reply to this command; "220" is the greeting
	say  map[string]string

	mu       sync.Mutex
	commands []string
	messages []string
	hung     chan struct{} // closed when it stops replying
}

func serve(t *testing.T, s *server) *server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.addr = l.Addr().(*net.TCPAddr)
	s.hung = make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { s.talk(conn) })
		}
	})
	t.Cleanup(func() { l.Close(); all.Wait() })
	return s
}

func (s *server) talk(conn net.Conn) {
	defer func() { conn.Close() }()
	in := bufio.NewReader(conn)
	// answer reports whether the dialogue continues.
	answer := func(verb, text string) bool {
		if s.mute == verb {
			close(s.hung)
			_, _ = io.Copy(io.Discard, in) // until the client gives up
			return false
		}
		if other, ok := s.say[verb]; ok {
			text = other
		}
		_, err := io.WriteString(conn, text+"\r\n")
		return err == nil
	}
	for ok := answer("220", "220 mail.test ESMTP"); ok; {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		line = strings.TrimRight(line, "\r\n")
		s.mu.Lock()
		s.commands = append(s.commands, line)
		s.mu.Unlock()
		verb, _, _ := strings.Cut(line, " ")
		_, secure := conn.(*tls.Conn)
		switch verb {
		case "EHLO":
			text := "250-mail.test\r\n250-8BITMIME\r\n250-SMTPUTF8\r\n"
			if s.cert != nil && !secure {
				text += "250-STARTTLS\r\n"
			}
			ok = answer(verb, text+"250 AUTH PLAIN")
		case "STARTTLS":
			ok = answer(verb, "220 go on")
			conn = tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{*s.cert}})
			in = bufio.NewReader(conn)
		case "AUTH":
			text := "235 welcome"
			if line != "AUTH PLAIN "+base64.StdEncoding.EncodeToString([]byte("\x00stoa\x00hunter2")) {
				text = "535 5.7.8 who are you"
			}
			ok = answer(verb, text)
		case "DATA":
			if ok = answer(verb, "354 go on"); ok && s.say[verb] == "" {
				ok = s.data(in) && answer(".", "250 taken")
			}
		case "QUIT":
			answer(verb, "221 bye")
			return
		default:
			ok = answer(verb, "250 fine")
		}
	}
}

func (s *server) data(in *bufio.Reader) bool {
	var text strings.Builder
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return false
		}
		if line == ".\r\n" {
			break
		}
		text.WriteString(strings.TrimPrefix(line, "."))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.messages = append(s.messages, text.String())
	return true
}

// only returns the one message that the server got.
func (s *server) only(t *testing.T) *netmail.Message {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.messages) != 1 {
		t.Fatalf("the server got %d messages, want 1; commands %q", len(s.messages), s.commands)
	}
	m, err := netmail.ReadMessage(strings.NewReader(s.messages[0]))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func (s *server) heard(prefix string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.commands {
		if strings.HasPrefix(c, prefix) {
			return true
		}
	}
	return false
}

func sender(t *testing.T, s *server, change func(*Config)) *SMTP {
	t.Helper()
	cfg := Config{Host: "127.0.0.1", Port: s.addr.Port, From: "Stoa <no-reply@example.org>", TLS: "none", Timeout: 5 * time.Second}
	if change != nil {
		change(&cfg)
	}
	c, err := NewSMTP(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// certificate returns a certificate for 127.0.0.1 that only the returned pool trusts.
func certificate(t *testing.T) (*tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	of := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, of, of, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

func TestSend_DeliversTheTextUnchanged(t *testing.T) {
	s := serve(t, &server{})
	text := "482913 is your code.\n.\n..and a line\nGrüße, 你好 – " + strings.Repeat("long ", 300) + "\n"
	err := sender(t, s, nil).Send(t.Context(), Message{To: "ann@example.org", Subject: "Ihr Code – 验证码", Text: text})
	if err != nil {
		t.Fatal(err)
	}
	m := s.only(t)
	subject, err := new(mime.WordDecoder).DecodeHeader(m.Header.Get("Subject"))
	if err != nil || subject != "Ihr Code – 验证码" {
		t.Errorf("subject: got %q (%v), want Ihr Code – 验证码", subject, err)
	}
	if got := m.Header.Get("Content-Transfer-Encoding"); got != "quoted-printable" {
		t.Fatalf("encoding: got %s, want quoted-printable", got)
	}
	body, err := io.ReadAll(quotedprintable.NewReader(m.Body))
	if got := strings.ReplaceAll(string(body), "\r\n", "\n"); err != nil || strings.TrimSuffix(got, "\n") != strings.TrimSuffix(text, "\n") {
		t.Errorf("text: got %q (%v), want %q", got, err, text)
	}
	for name, want := range map[string]string{
		"To": "<ann@example.org>", "From": `"Stoa" <no-reply@example.org>`, "Auto-Submitted": "auto-generated",
		"Content-Type": "text/plain; charset=UTF-8", "User-Agent": "", "X-Mailer": "",
	} {
		if got := m.Header.Get(name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	if id := m.Header.Get("Message-Id"); !strings.HasSuffix(id, "@example.org>") {
		t.Errorf("Message-ID: got %s, want the sender's domain in it", id)
	}
	if _, err := m.Header.Date(); err != nil {
		t.Errorf("Date: %v", err)
	}
	if !s.heard("MAIL FROM:<no-reply@example.org>") || !s.heard("RCPT TO:<ann@example.org>") || !s.heard("QUIT") || s.heard("AUTH") {
		t.Errorf("got commands %q", s.commands)
	}
}

func TestSend_EncodesTheDomainInASCII(t *testing.T) {
	s := serve(t, &server{})
	if err := sender(t, s, nil).Send(t.Context(), Message{To: "Ann@müller.example", Subject: "x", Text: "x"}); err != nil {
		t.Fatal(err)
	}
	if to := s.only(t).Header.Get("To"); !s.heard("RCPT TO:<Ann@xn--mller-kva.example>") || to != "<Ann@xn--mller-kva.example>" {
		t.Errorf("got a mail to %s, and commands %q", to, s.commands)
	}
	for in, want := range map[string]string{"ann@EXAMPLE.org": "ann@example.org", "ann@exa_mple.org": "ann@exa_mple.org", "ann": "ann",
		"ann@-ä.org": "ann@-ä.org"} {
		if got := ASCII(in); got != want {
			t.Errorf("%s in ASCII is %s, want %s", in, got, want)
		}
	}
}

func TestSend_RefusesHeaderInjection(t *testing.T) {
	s := serve(t, &server{})
	c := sender(t, s, nil)
	for what, m := range map[string]Message{
		"a line break in the subject":   {To: "ann@example.org", Subject: "Hello\r\nBcc: eve@example.org", Text: "x"},
		"a line feed in the subject":    {To: "ann@example.org", Subject: "Hello\nBcc: eve@example.org", Text: "x"},
		"an odd line end in it":         {To: "ann@example.org", Subject: "Hello\u0085Bcc: eve@example.org", Text: "x"},
		"a line break in the recipient": {To: "ann@example.org\r\nBcc: eve@example.org", Subject: "Hello", Text: "x"},
		"one in a quoted local part":    {To: "\"a\r\n b\"@example.org", Subject: "Hello", Text: "x"},
		"an odd line end in it as well": {To: "an\u0085n@example.org", Subject: "Hello", Text: "x"},
		"two recipients":                {To: "ann@example.org, eve@example.org", Subject: "Hello", Text: "x"},
		"a name":                        {To: "Ann <ann@example.org>", Subject: "Hello", Text: "x"},
		"no recipient":                  {Subject: "Hello", Text: "x"},
		"an endless subject":            {To: "ann@example.org", Subject: strings.Repeat("x", 256), Text: "x"},
		"broken UTF-8":                  {To: "ann@example.org", Subject: "Hello", Text: "\xff"},
	} {
		if err := c.Send(t.Context(), m); !errors.Is(err, ErrRefused) {
			t.Errorf("%s: got %v, want it refused", what, err)
		}
	}
	if len(s.messages) > 0 || len(s.commands) > 0 {
		t.Errorf("the server got %q and %q, want nothing", s.commands, s.messages)
	}

	text := "Bcc: eve@example.org\r\n\r\n.\r\nMAIL FROM:<eve@example.org>\r\n"
	if err := c.Send(t.Context(), Message{To: "ann@example.org", Subject: "Hello", Text: text}); err != nil {
		t.Fatal(err)
	}
	if got := s.only(t).Header.Get("Bcc"); got != "" || s.heard("MAIL FROM:<eve") {
		t.Errorf("the text got out of its place: Bcc %q, commands %q", got, s.commands)
	}
}

func TestSend_OnlyPermanentRefusalsAreErrRefused(t *testing.T) {
	for _, c := range []struct {
		verb, say string
		refused   bool
	}{
		{"RCPT", "550 5.1.1 no such user ann@example.org here", true},
		{"DATA", "554 no thanks", true},
		{".", "554 5.7.1 looks like spam", true},
		{"RCPT", "450 4.2.0 come again later, ann@example.org", false},
		{"MAIL", "421 too busy", false},
		{"220", "554 no mail here", false}, // temporary: it does not concern this mail
		{"AUTH", "535 who are you", false}, // the settings are wrong, not the mail
	} {
		t.Run(c.verb+" "+c.say[:3], func(t *testing.T) {
			s := serve(t, &server{say: map[string]string{c.verb: c.say}})
			err := sender(t, s, func(cfg *Config) { cfg.User, cfg.Password = "stoa", "hunter2" }).
				Send(t.Context(), Message{To: "ann@example.org", Subject: "Hello", Text: "x"})
			if err == nil || errors.Is(err, ErrRefused) != c.refused || !strings.Contains(err.Error(), c.say[:3]) {
				t.Errorf("got %v; want %q in it, refused for good %v", err, c.say[:3], c.refused)
			}
			if err != nil && (strings.Contains(err.Error(), "ann@example.org") || strings.Contains(err.Error(), "hunter2")) {
				t.Errorf("the error contains the recipient: %v", err)
			}
		})
	}
}

func TestSend_IgnoresFailuresAfterDelivery(t *testing.T) {
	for _, verb := range []string{"RSET", "QUIT"} {
		s := serve(t, &server{say: map[string]string{verb: "451 oh"}})
		if err := sender(t, s, nil).Send(t.Context(), Message{To: "ann@example.org", Subject: "Hello", Text: "x"}); err != nil {
			t.Errorf("%s: got %v, want nil: a second try would mail twice", verb, err)
		}
	}
}

func TestSend_TimesOutOnASilentServer(t *testing.T) {
	for _, verb := range []string{"220", "EHLO", "RCPT", "."} {
		t.Run(verb, func(t *testing.T) {
			s := serve(t, &server{mute: verb})
			c := sender(t, s, func(cfg *Config) { cfg.Timeout = 100 * time.Millisecond })
			begun := time.Now()
			err := c.Send(t.Context(), Message{To: "ann@example.org", Subject: "Hello", Text: "x"})
			if err == nil || errors.Is(err, ErrRefused) {
				t.Errorf("got %v, want an error that may pass", err)
			}
			if took := time.Since(begun); took > 3*time.Second {
				t.Errorf("gave up after %v, want about 100ms", took)
			}
		})
	}
}

func TestSend_EndsWithItsContext(t *testing.T) {
	for _, verb := range []string{"220", "RCPT"} {
		s := serve(t, &server{mute: verb})
		ctx, cancel := context.WithCancel(t.Context())
		go func() { <-s.hung; cancel() }()
		c := sender(t, s, func(cfg *Config) { cfg.Timeout = time.Minute })
		if err := c.Send(ctx, Message{To: "ann@example.org", Subject: "Hello", Text: "x"}); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: got %v, want %v", verb, err, context.Canceled)
		}
	}
}

func TestSend_FailsWithoutAServer(t *testing.T) {
	s := serve(t, &server{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.addr = l.Addr().(*net.TCPAddr)
	l.Close()
	err = sender(t, s, nil).Send(t.Context(), Message{To: "ann@example.org", Subject: "Hello", Text: "x"})
	if _, ok := errors.AsType[*net.OpError](err); !ok || errors.Is(err, ErrRefused) {
		t.Errorf("got %v, want a network error", err)
	}
}

func TestSend_EncryptsBeforeThePassword(t *testing.T) {
	cert, pool := certificate(t)
	hello := Message{To: "ann@example.org", Subject: "Hello", Text: "x"}
	login := func(cfg *Config) {
		cfg.User, cfg.Password, cfg.TLS = "stoa", "hunter2", "starttls"
		cfg.TLSConfig = &tls.Config{RootCAs: pool}
	}

	s := serve(t, &server{cert: cert})
	if err := sender(t, s, login).Send(t.Context(), hello); err != nil {
		t.Fatal(err)
	}
	s.only(t)
	if s.commands[1] != "STARTTLS" || !strings.HasPrefix(s.commands[3], "AUTH PLAIN ") {
		t.Errorf("got commands %q, want STARTTLS second and AUTH fourth", s.commands)
	}

	s = serve(t, &server{})
	if err := sender(t, s, login).Send(t.Context(), hello); err == nil || s.heard("AUTH") || s.heard("MAIL") {
		t.Errorf("a server without STARTTLS: got %v and commands %q, want no more than EHLO", err, s.commands)
	}

	s = serve(t, &server{cert: cert})
	err := sender(t, s, func(cfg *Config) { login(cfg); cfg.TLSConfig = nil }).Send(t.Context(), hello)
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); !ok || s.heard("AUTH") {
		t.Errorf("a strange certificate: got %v and commands %q, want it refused", err, s.commands)
	}

	s = serve(t, &server{cert: cert})
	err = sender(t, s, func(cfg *Config) { login(cfg); cfg.Password = "wrong" }).Send(t.Context(), hello)
	if err == nil || errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "535") {
		t.Errorf("a wrong password: got %v, want 535, and that it may pass", err)
	}
}

func TestSend_UsesImplicitTLS(t *testing.T) {
	cert, pool := certificate(t)
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{*cert}})
	if err != nil {
		t.Fatal(err)
	}
	s := &server{addr: l.Addr().(*net.TCPAddr)}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			s.talk(conn)
		}
	})
	t.Cleanup(func() { l.Close(); all.Wait() })
	c := sender(t, s, func(cfg *Config) {
		// The library does not recognise this address as one of this machine, where an unencrypted password is
		// allowed.
		cfg.Host, cfg.TLS, cfg.TLSConfig = "[::ffff:127.0.0.1]", "tls", &tls.Config{RootCAs: pool, ServerName: "127.0.0.1"}
		cfg.User, cfg.Password = "stoa", "hunter2"
	})
	if greeting, err := c.Check(t.Context()); err != nil || greeting != "mail.test ESMTP" {
		t.Errorf("the check: %q, %v", greeting, err)
	}
	if err := c.Send(t.Context(), Message{To: "ann@example.org", Subject: "Hello", Text: "x"}); err != nil {
		t.Fatal(err)
	}
	s.only(t)
	if !s.heard("AUTH PLAIN") {
		t.Errorf("got commands %q, want a log-in", s.commands)
	}
}

func TestConfig_IsValidatedWithDefaultPorts(t *testing.T) {
	for want, cfg := range map[string]Config{
		"from: want":    {Host: "h"},
		"port: want":    {Host: "h", From: "a@b", Port: 70000},
		"user: want":    {Host: "h", From: "a@b", Password: "hunter2"},
		"timeout: want": {Host: "h", From: "a@b", Timeout: -1},
		"tls: want":     {Host: "h", From: "a@b", TLS: "maybe"},
		"no host":       {},
	} {
		if _, err := NewSMTP(cfg); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("NewSMTP(%+v): got %v, want %s", cfg, err, want)
		}
	}
	if err := (Config{From: "nonsense"}).Validate(); err != nil {
		t.Errorf("without a host: got %v, want nil", err)
	}
	for mode, port := range map[string]int{"": 587, "starttls": 587, "tls": 465, "none": 25} {
		c, err := NewSMTP(Config{Host: "h", From: "a@b", TLS: mode})
		if err != nil || c.cfg.Port != port || c.cfg.Timeout != 10*time.Second {
			t.Errorf("%q: got port %d, time-out %v (%v); want %d and 10s", mode, c.cfg.Port, c.cfg.Timeout, err, port)
		}
	}
	var tagged struct {
		SMTP Config `koanf:"smtp"`
	}
	if _, err := config.Load(&tagged, config.Sources{Env: []string{"STOA_SMTP_HOST=h"}}); err == nil ||
		err.Error() != "smtp.from: want a sender, such as Stoa <no-reply@example.org>" {
		t.Errorf("loaded without a sender: got %v, want smtp.from at fault", err)
	}
}

func TestCheck_LogsInAndSendsNothing(t *testing.T) {
	cert, pool := certificate(t)
	auth := func(c *Config) { c.User, c.Password = "stoa", "hunter2" }
	for _, c := range []struct {
		name   string
		server *server
		change func(*Config)
		want   string // text in the error; empty: success
	}{
		{"plain", &server{}, nil, ""},
		{"STARTTLS and a log-in", &server{cert: cert}, func(c *Config) {
			auth(c)
			c.TLS, c.TLSConfig = "starttls", &tls.Config{RootCAs: pool}
		}, ""},
		{"a wrong password", &server{}, func(c *Config) { c.User, c.Password = "stoa", "hunter3" }, "535"},
		{"no STARTTLS", &server{}, func(c *Config) { c.TLS = "starttls" }, "STARTTLS"},
		{"a certificate of nobody's", &server{cert: cert}, func(c *Config) { c.TLS = "starttls" }, "certificate"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := serve(t, c.server)
			greeting, err := sender(t, s, c.change).Check(t.Context())
			if c.want == "" && (err != nil || greeting != "mail.test ESMTP") {
				t.Errorf("%q, %v", greeting, err)
			}
			if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hunter3")) {
				t.Errorf("error %v, want %q", err, c.want)
			}
			if s.heard("MAIL") || s.heard("RCPT") || s.heard("DATA") {
				t.Error("the check began a mail")
			}
			if logged := s.heard("AUTH"); c.want == "" && logged != (c.change != nil) {
				t.Errorf("logged in: %v", logged)
			}
		})
	}
	s := serve(t, &server{mute: "220"})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-s.hung; cancel() }()
	if _, err := sender(t, s, nil).Check(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("a check whose context ended gives %v", err)
	}
}
