package redis

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
)

// certificateSettings are the TLS settings of a URL; they name files.
var certificateSettings = []string{"ca", "cert", "key", "servername"}

// encryption reads those settings. It returns nil if the URL has none.
func encryption(q url.Values) (*tls.Config, error) {
	given := false
	for _, name := range certificateSettings {
		if q.Has(name) && q.Get(name) == "" {
			return nil, fmt.Errorf("redis: the URL's %s is empty", name)
		}
		given = given || q.Has(name)
	}
	if !given {
		return nil, nil
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: q.Get("servername")}
	if file := q.Get("ca"); file != "" {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("redis: the URL's ca: %w", err)
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("redis: the URL's ca: %s has no certificate in PEM", file)
		}
	}
	cert, key := q.Get("cert"), q.Get("key")
	switch {
	case cert == "" && key == "":
		return cfg, nil
	case key == "":
		return nil, errors.New("redis: the URL's cert needs its key=FILE")
	case cert == "":
		return nil, errors.New("redis: the URL's key needs its cert=FILE")
	}
	if _, err := pair(cert, key); err != nil {
		return nil, err
	}
	// The files are read again for each connection, because certificates are replaced.
	cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return pair(cert, key) }
	return cfg, nil
}

// pair reads a client's certificate and its private key.
func pair(cert, key string) (*tls.Certificate, error) {
	public, err := os.ReadFile(cert)
	if err != nil {
		return nil, fmt.Errorf("redis: the URL's cert: %w", err)
	}
	private, err := os.ReadFile(key)
	if err != nil {
		return nil, fmt.Errorf("redis: the URL's key: %w", err)
	}
	both, err := tls.X509KeyPair(public, private)
	if err != nil {
		return nil, fmt.Errorf("redis: the URL's cert %s and key %s: %w", cert, key, err)
	}
	return &both, nil
}

// encrypt makes the TLS handshake over a new connection, and waits for a reply. With TLS 1.3 a server checks a client's
// certificate only after the client has finished the handshake, and its error would be hidden by a failed write.
func encrypt(ctx context.Context, plain net.Conn, addr string, cfg *tls.Config) (net.Conn, error) {
	if cfg.ServerName == "" {
		host, _, err := net.SplitHostPort(addr)
		if err != nil {
			return nil, err
		}
		cfg = cfg.Clone()
		cfg.ServerName = host
	}
	c := tls.Client(plain, cfg)
	err := c.HandshakeContext(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		return nil, fmt.Errorf("no TLS handshake with %s in time; does the server speak TLS? %w", addr, err)
	}
	if err != nil {
		return nil, fmt.Errorf("TLS handshake with %s: %w", addr, err)
	}
	line, err := ping(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("no reply over TLS from %s: %w", addr, err)
	}
	if bytes.HasPrefix(line, []byte("-DENIED")) { // sent to each new connection, before the server ends it
		return nil, ServerError(bytes.TrimSpace(line[1:]))
	}
	return c, nil
}
