package mail

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	netmail "net/mail"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	gomail "github.com/wneessen/go-mail"
	"github.com/wneessen/go-mail/smtp"

	"github.com/stoa-dev/stoa/internal/config"
)

// Config says which server sends the mails.
type Config struct {
	// Host is the server's name. Empty means that there is none.
	Host string `koanf:"host" help:"mail server; empty: mails are not sent"`

	// Port is 587 for "starttls", 465 for "tls" and 25 for "none" when zero.
	Port int `koanf:"port" default:"0" help:"its port; 0: 587, 465 for tls or 25 for none"`

	// User and Password log in, by the best way the server offers. An empty User
	// does not log in.
	User     string `koanf:"user" help:"name to log in with; empty: without"`
	Password string `koanf:"password" secret:"true" help:"password to log in with"`

	// From is the sender: "no-reply@example.org" or "Stoa <no-reply@example.org>".
	// Needed when there is a Host.
	From string `koanf:"from" help:"sender, such as Stoa <no-reply@example.org>"`

	// TLS is "starttls", "tls" or "none". A server that cannot encrypt as asked is
	// refused, not spoken to in the clear.
	TLS string `koanf:"tls" default:"starttls" enum:"starttls,tls,none" help:"how the connection is encrypted"`

	// Timeout bounds each of connecting, logging in and handing over.
	Timeout time.Duration `koanf:"timeout" default:"10s" help:"how long each of connecting, logging in and handing over may take"`

	// TLSConfig replaces the system's certificates and TLS settings. Nil keeps them.
	TLSConfig *tls.Config
}

// Validate returns all that is wrong with c, joined. A Config without a Host is
// right, and sends nothing.
func (c Config) Validate() error {
	if c.Host == "" {
		return nil
	}
	config.Defaults(&c)
	_, badSender := netmail.ParseAddress(c.From)
	_, known := policies[c.TLS]
	return errors.Join(
		config.Refuse(badSender != nil, "from", "want a sender, such as Stoa <no-reply@example.org>"),
		config.Refuse(c.Port < 0 || c.Port > 65535, "port", "want 0 to 65535"),
		config.Refuse(c.User == "" && c.Password != "", "user", "want one, as there is a password"),
		config.Refuse(c.Timeout < 0, "timeout", "want none below zero"),
		config.Refuse(!known, "tls", "want one of starttls, tls, none"))
}

var policies = map[string]struct {
	port     int
	starttls gomail.TLSPolicy
}{
	"starttls": {587, gomail.TLSMandatory},
	"tls":      {465, gomail.NoTLS}, // the connection itself is encrypted
	"none":     {25, gomail.NoTLS},
}

// SMTP sends through a mail server. It is safe for concurrent use; every mail
// has a connection of its own.
type SMTP struct {
	cfg  Config
	tls  *tls.Config
	from *netmail.Address
}

// NewSMTP checks cfg, which needs a Host. It does not connect.
func NewSMTP(cfg Config) (*SMTP, error) {
	if cfg.Host == "" {
		return nil, errors.New("mail.NewSMTP: no host")
	}
	config.Defaults(&cfg)
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("mail.NewSMTP: %w", err)
	}
	if cfg.Port == 0 {
		cfg.Port = policies[cfg.TLS].port
	}
	from, err := netmail.ParseAddress(cfg.From)
	if err != nil {
		return nil, fmt.Errorf("mail.NewSMTP: %w", err)
	}
	encrypt := cfg.TLSConfig.Clone()
	if encrypt == nil {
		encrypt = &tls.Config{}
	}
	encrypt.ServerName = cmp.Or(encrypt.ServerName, cfg.Host)
	return &SMTP{cfg, encrypt, from}, nil
}

// Send implements [Sender]. It returns within three time-outs; the end of ctx
// breaks it off.
func (s *SMTP) Send(ctx context.Context, m Message) error {
	to, err := m.address()
	if err != nil {
		return err
	}
	msg := gomail.NewMsg(gomail.WithNoDefaultUserAgent())
	msg.FromMailAddress(s.from)
	to.Address = ASCII(to.Address)
	msg.ToMailAddress(to)
	msg.Subject(m.Subject)
	msg.SetDate()
	_, domain, _ := strings.Cut(s.from.Address, "@")
	msg.SetMessageIDWithValue(rand.Text() + "@" + domain) // not this machine's name
	msg.SetGenHeader("Auto-Submitted", "auto-generated")  // RFC 3834: asks for no automatic replies
	msg.SetBodyString(gomail.TypeTextPlain, m.Text)

	if err := s.deliver(ctx, msg); err != nil && !msg.IsDelivered() { // a failure after the delivery does not matter
		if sent, ok := errors.AsType[*gomail.SendError](err); ok && sent.ErrorCode()/100 == 5 {
			err = fmt.Errorf("%w: %w", ErrRefused, err)
		}
		if ctx.Err() != nil {
			err = fmt.Errorf("%w: %w", ctx.Err(), err)
		}
		return hide(m.To, err)
	}
	return nil
}

func (s *SMTP) deliver(ctx context.Context, msg *gomail.Msg) error {
	ctx, done := context.WithCancel(ctx)
	defer done() // also closes the connection, which the library leaves open when the log-in fails
	client, err := s.dial(ctx, nil)
	if err != nil {
		return err
	}
	return errors.Join(client.Send(msg), client.Close())
}

// Check connects, encrypts and logs in as for a mail, sends none, and returns the server's
// greeting. It ends with ctx, or within two time-outs.
func (s *SMTP) Check(ctx context.Context) (greeting string, err error) {
	ctx, done := context.WithCancel(ctx)
	defer done()
	heard := new(greeted)
	client, err := s.dial(ctx, heard)
	if err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("%w: %w", ctx.Err(), err)
		}
		return "", fmt.Errorf("mail.Check: %w", err)
	}
	_ = client.Close() // a server that ends before it says goodbye does all the same
	line, _, _ := strings.Cut(string(heard.text), "\n")
	line = strings.ToValidUTF8(strings.TrimSpace(strings.TrimPrefix(strings.TrimPrefix(line, "220"), "-")), "")
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return -1
		}
		return r
	}, line), nil
}

// At returns the server's host:port.
func (s *SMTP) At() string { return net.JoinHostPort(s.cfg.Host, strconv.Itoa(s.cfg.Port)) }

// greeted is a connection that keeps the first of what the server says.
type greeted struct {
	net.Conn
	text []byte
}

func (g *greeted) Read(b []byte) (int, error) {
	n, err := g.Conn.Read(b)
	if len(g.text) == 0 {
		g.text = append(g.text, b[:n]...)
	}
	return n, err
}

// dial connects and logs in. The connection is closed when ctx ends; heard, if there is one,
// is given what it says first.
func (s *SMTP) dial(ctx context.Context, heard *greeted) (*gomail.Client, error) {
	opts := []gomail.Option{
		gomail.WithPort(s.cfg.Port), gomail.WithTimeout(s.cfg.Timeout), gomail.WithTLSConfig(s.tls),
		gomail.WithTLSPolicy(policies[s.cfg.TLS].starttls),
		gomail.WithoutNoop(), // the connection is fresh
		gomail.WithDialContextFunc(func(dialing context.Context, network, addr string) (net.Conn, error) {
			dial := new(net.Dialer).DialContext
			if s.cfg.TLS == "tls" {
				dial = (&tls.Dialer{Config: s.tls}).DialContext
			}
			conn, err := dial(dialing, network, addr)
			if err != nil {
				return nil, err
			}
			context.AfterFunc(ctx, func() { conn.Close() })
			if heard != nil {
				heard.Conn = conn
				return heard, nil
			}
			return conn, nil
		}),
	}
	if s.cfg.User != "" {
		opts = append(opts, gomail.WithSMTPAuthCustom(&login{cfg: s.cfg}))
	}
	client, err := gomail.NewClient(s.cfg.Host, opts...)
	if err != nil {
		return nil, err
	}
	return client, client.DialWithContext(ctx)
}

// login picks the best way to log in that the server offers. PLAIN and LOGIN
// refuse to go over the wire in the clear, save to this very machine.
type login struct {
	cfg Config
	smtp.Auth
}

// Start implements smtp.Auth.
func (l *login) Start(server *smtp.ServerInfo) (proto string, toServer []byte, err error) {
	if l.cfg.TLS == "tls" { // the library does not see it where Check listens to the connection
		server = &smtp.ServerInfo{Name: server.Name, TLS: true, Auth: server.Auth}
	}
	switch has := func(way string) bool { return slices.Contains(server.Auth, way) }; {
	case has("SCRAM-SHA-256"):
		l.Auth = smtp.ScramSHA256Auth(l.cfg.User, l.cfg.Password)
	case has("LOGIN") && !has("PLAIN"):
		l.Auth = smtp.LoginAuth(l.cfg.User, l.cfg.Password, l.cfg.Host, false)
	default:
		l.Auth = smtp.PlainAuth("", l.cfg.User, l.cfg.Password, l.cfg.Host, false)
	}
	return l.Auth.Start(server)
}

// hide wraps err in one that does not tell the recipient, whom servers like to
// repeat: errors are logged and stored.
func hide(to string, err error) error {
	return &sendError{"mail.Send: " + strings.ReplaceAll(err.Error(), to, "(recipient)"), err}
}

type sendError struct {
	text string
	err  error
}

func (e *sendError) Error() string { return e.text }
func (e *sendError) Unwrap() error { return e.err }
