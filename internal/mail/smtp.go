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

// Config configures the mail server.
type Config struct {
	// Host is the server's name. Empty means that there is none.
	Host string `koanf:"host" help:"mail server; empty: mails are not sent"`

	// Port is 587 for "starttls", 465 for "tls" and 25 for "none" if it is zero.
	Port int `koanf:"port" default:"0" help:"its port; 0: 587, 465 for tls or 25 for none"`

	// User and Password are used by the best method that the server offers. An empty User does not log in.
	User     string `koanf:"user" help:"user name at the mail server; empty: no log-in"`
	Password string `koanf:"password" secret:"true" help:"password at the mail server"`

	// From is the sender: "no-reply@example.org" or "Stoa <no-reply@example.org>". It is required if there is a Host.
	From string `koanf:"from" help:"sender, such as Stoa <no-reply@example.org>"`

	// TLS is "starttls", "tls" or "none". The connection fails if the server does not support the chosen encryption;
	// it is never unencrypted instead.
	TLS string `koanf:"tls" default:"starttls" enum:"starttls,tls,none" help:"encryption of the connection"`

	// Timeout bounds each of connecting, logging in and sending.
	Timeout time.Duration `koanf:"timeout" default:"10s" help:"time limit of each of connecting, logging in and sending"`

	// TLSConfig replaces the system's certificates and TLS settings. Nil uses those.
	TLSConfig *tls.Config
}

// Validate returns all faults of c, joined. A Config without a Host is valid, and sends nothing.
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
		config.Refuse(c.User == "" && c.Password != "", "user", "want a user name, because there is a password"),
		config.Refuse(c.Timeout < 0, "timeout", "want a duration of at least 0"),
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

// SMTP sends through a mail server. It is safe for concurrent use; every mail has a connection of its own.
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

// Send implements [Sender]. It returns within three timeouts, or when ctx ends.
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
	msg.SetGenHeader("Auto-Submitted", "auto-generated")  // RFC 3834: requests no automatic replies
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

// Check connects, encrypts and logs in as for a mail, but sends none. It returns the server's greeting. It ends with
// ctx, or within two timeouts.
func (s *SMTP) Check(ctx context.Context) (greeting string, err error) {
	ctx, done := context.WithCancel(ctx)
	defer done()
	greeter := new(greeted)
	client, err := s.dial(ctx, greeter)
	if err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("%w: %w", ctx.Err(), err)
		}
		return "", fmt.Errorf("mail.Check: %w", err)
	}
	_ = client.Close() // it does not matter if the server closes first
	line, _, _ := strings.Cut(string(greeter.text), "\n")
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

// greeted is a connection that records the first text of the server.
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

// dial connects and logs in. The connection is closed when ctx ends. If greeter is not nil, it records the server's
// greeting.
func (s *SMTP) dial(ctx context.Context, greeter *greeted) (*gomail.Client, error) {
	opts := []gomail.Option{
		gomail.WithPort(s.cfg.Port), gomail.WithTimeout(s.cfg.Timeout), gomail.WithTLSConfig(s.tls),
		gomail.WithTLSPolicy(policies[s.cfg.TLS].starttls),
		gomail.WithoutNoop(), // the connection is new
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
			if greeter != nil {
				greeter.Conn = conn
				return greeter, nil
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

// login uses the best method that the server offers. PLAIN and LOGIN refuse an unencrypted connection, except to this
// machine.
type login struct {
	cfg Config
	smtp.Auth
}

// Start implements smtp.Auth.
func (l *login) Start(server *smtp.ServerInfo) (proto string, toServer []byte, err error) {
	if l.cfg.TLS == "tls" { // the library does not detect it on Check's wrapped connection
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

// hide wraps err in an error without the recipient, because servers often repeat it, and errors are logged and
// stored.
func hide(to string, err error) error {
	return &sendError{"mail.Send: " + strings.ReplaceAll(err.Error(), to, "(recipient)"), err}
}

type sendError struct {
	text string
	err  error
}

func (e *sendError) Error() string { return e.text }
func (e *sendError) Unwrap() error { return e.err }
