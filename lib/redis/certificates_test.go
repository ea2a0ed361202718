package redis_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/lib/redis"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

// An issuer is an authority that is only trusted if it is named.
type issuer struct {
	file string // its certificate
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newIssuer(t *testing.T, name string) *issuer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	i := &issuer{file: filepath.Join(t.TempDir(), "ca.crt"), key: key, cert: &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}}
	i.write(t, i.file, i.cert, &key.PublicKey)
	return i
}

func (i *issuer) write(t *testing.T, file string, cert *x509.Certificate, key *ecdsa.PublicKey) {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, cert, i.cert, key, i.key)
	if err == nil {
		err = os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// issue makes a certificate for a name or an address, and its key.
func (i *issuer) issue(t *testing.T, name string) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour)}
	if ip := net.ParseIP(name); ip != nil {
		leaf.IPAddresses = []net.IP{ip}
	} else {
		leaf.DNSNames = []string{name}
	}
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	i.write(t, cert, leaf, &private.PublicKey)
	der, err := x509.MarshalECPrivateKey(private)
	if err == nil {
		err = os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return cert, key
}

// mutual makes a server or a sentinel require client certificates; its own certificate is for name.
func (i *issuer) mutual(t *testing.T, name string) (port string, settings []string) {
	t.Helper()
	cert, key := i.issue(t, name)
	port = fmt.Sprint(redistest.FreePort(t))
	return port, []string{
		"tls-port " + port, "tls-cert-file " + cert, "tls-key-file " + key,
		"tls-ca-cert-file " + i.file, "tls-auth-clients yes", "tls-replication yes",
	}
}

// config returns the settings that a program can use instead of files.
func (i *issuer) config(t *testing.T, cert, key string) *tls.Config {
	t.Helper()
	shown, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(i.file)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(text)
	return &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{shown}}
}

// refused opens a DB and returns the error of a command, which must be ErrUnavailable.
func refused(t *testing.T, cfg redis.Config) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	cfg.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	db, err := redis.Open(ctx, cfg)
	if err != nil {
		t.Fatalf("Open: %v, want it to keep connecting", err)
	}
	defer db.Close()
	eventually.True(t, "it has tried to connect", func() bool {
		_, _, err = value.At(n(1)).Get(ctx, db)
		return err == nil || !strings.Contains(err.Error(), "not connected yet")
	})
	if !errors.Is(err, redis.ErrUnavailable) {
		t.Fatalf("got %v, want ErrUnavailable", err)
	}
	return err.Error()
}

func TestTLS_ClientCertificates(t *testing.T) {
	own, foreign := newIssuer(t, "own"), newIssuer(t, "foreign")
	port, settings := own.mutual(t, "127.0.0.1")
	plain := redistest.Server(t, settings...)
	cert, key := own.issue(t, "client")
	strange, strangeKey := foreign.issue(t, "client")
	base := "rediss://127.0.0.1:" + port

	url := base + "?ca=" + own.file + "&cert=" + cert + "&key=" + key
	t.Run("by files", func(t *testing.T) { works(t, url) })
	t.Run("by Config.TLS", func(t *testing.T) {
		plain.FlushAll()
		cfg := own.config(t, cert, key)
		worksWith(t, redis.Config{URL: base, TLS: cfg})
		if cfg.ServerName != "" {
			t.Errorf("the caller's TLS config got the name %s", cfg.ServerName)
		}
	})
	for _, s := range probe(t, redis.Config{URL: base, TLS: own.config(t, cert, key)}) {
		if s.Err != nil {
			t.Errorf("a probe: %v", s.Err)
		}
	}
	for name, c := range map[string]struct {
		cfg  redis.Config
		want string
	}{
		"no client certificate": {redis.Config{URL: base + "?ca=" + own.file}, "certificate required"},
		"a foreign client certificate": {redis.Config{URL: base + "?ca=" + own.file + "&cert=" + strange + "&key=" + strangeKey},
			"unknown certificate authority"},
		"a foreign authority": {redis.Config{URL: base + "?ca=" + foreign.file + "&cert=" + cert + "&key=" + key},
			"signed by unknown authority"},
		"another name":              {redis.Config{URL: url + "&servername=redis.example"}, "redis.example"},
		"Config.TLS of a foreigner": {redis.Config{URL: base, TLS: foreign.config(t, cert, key)}, "signed by unknown authority"},
		"plain text":                {redis.Config{URL: "redis://127.0.0.1:" + port}, "needs rediss://"},
		"TLS where there is none":   {redis.Config{URL: strings.Replace(url, "127.0.0.1:"+port, plain.Addr, 1)}, "does the server speak TLS"},
	} {
		t.Run(name, func(t *testing.T) {
			if why := refused(t, c.cfg); !strings.Contains(why, c.want) {
				t.Errorf("refused with %q, want %q in it", why, c.want)
			}
		})
	}
}

func TestTLS_ServerErrorBeforeCommandsIsReported(t *testing.T) {
	own := newIssuer(t, "own")
	cert, key := own.issue(t, "127.0.0.1")
	l, err := tls.Listen("tcp", "127.0.0.1:0", own.config(t, cert, key))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				fmt.Fprint(c, "-DENIED Redis is running in protected mode\r\n")
				_, _ = c.Read(make([]byte, 100))
			}()
		}
	}()
	if why := refused(t, redis.Config{URL: "rediss://" + l.Addr().String() + "?ca=" + own.file}); !strings.Contains(why,
		"DENIED Redis is running") {
		t.Errorf("refused with %q", why)
	}
}

func TestTLS_ReplacedClientCertificateIsUsed(t *testing.T) {
	own := newIssuer(t, "own")
	port, settings := own.mutual(t, "redis.example")
	redistest.Server(t, settings...)
	good, goodKey := own.issue(t, "client")
	cert, key := newIssuer(t, "foreign").issue(t, "client")
	url := "rediss://127.0.0.1:" + port + "?servername=redis.example&ca=" + own.file + "&cert=" + cert + "&key=" + key
	db, err := redis.Open(t.Context(), redis.Config{URL: url, Patience: 20 * time.Second, Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.Ping(t.Context()); err == nil {
		t.Fatal("a client with a foreign certificate was accepted")
	}
	for from, to := range map[string]string{good: cert, goodKey: key} {
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	eventually.True(t, "the new certificate is shown", func() bool { return db.Ping(t.Context()) == nil })
}

func TestTLS_ClientCertificatesWithSentinelsAndCluster(t *testing.T) {
	own := newIssuer(t, "own")
	cert, key := own.issue(t, "client")
	files := "&ca=" + own.file + "&cert=" + cert + "&key=" + key

	port, settings := own.mutual(t, "127.0.0.1")
	server := redistest.Server(t, settings...)
	sentinelPort, settings := own.mutual(t, "127.0.0.1")
	conf := filepath.Join(t.TempDir(), "sentinel.conf")
	text := strings.Join(append(settings, "sentinel monitor stoa 127.0.0.1 "+port+" 1", ""), "\n")
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	redistest.Conf(t, conf, "--sentinel")
	url := "redis-sentinel://127.0.0.1:" + sentinelPort + "/stoa?tls=true"
	t.Run("sentinel by files", func(t *testing.T) { works(t, url+files) })
	t.Run("sentinel by Config.TLS", func(t *testing.T) {
		server.FlushAll()
		worksWith(t, redis.Config{URL: url, TLS: own.config(t, cert, key)})
	})

	port, settings = own.mutual(t, "127.0.0.1")
	server = redistest.Server(t, append(settings, "tls-cluster yes", "cluster-enabled yes",
		"cluster-announce-ip 127.0.0.1", fmt.Sprint("cluster-port ", redistest.FreePort(t)))...)
	if _, err := server.Do("CLUSTER", "ADDSLOTSRANGE", "0", "16383"); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "the cluster is complete", func() bool {
		info, err := server.Do("CLUSTER", "INFO")
		return err == nil && strings.Contains(info[0], "cluster_state:ok")
	})
	url = "redis-cluster://127.0.0.1:" + port + "?tls=true"
	t.Run("cluster by files", func(t *testing.T) { works(t, url+files) })
	t.Run("cluster by Config.TLS", func(t *testing.T) {
		server.FlushAll()
		worksWith(t, redis.Config{URL: url, TLS: own.config(t, cert, key)})
	})
}

func TestTLS_CertificateFaultsAreNamed(t *testing.T) {
	own := newIssuer(t, "own")
	cert, key := own.issue(t, "client")
	_, other := own.issue(t, "client")
	missing := filepath.Join(t.TempDir(), "missing")
	for query, want := range map[string]string{
		"?ca=" + missing:                        "the URL's ca: open",
		"?ca=" + key:                            "the URL's ca: " + key + " has no certificate",
		"?ca=":                                  "the URL's ca is empty",
		"?cert=" + cert:                         "cert needs its key",
		"?key=" + key:                           "key needs its cert",
		"?cert=" + missing + "&key=" + key:      "the URL's cert: open",
		"?cert=" + cert + "&key=" + missing:     "the URL's key: open",
		"?cert=" + cert + "&key=" + other:       "does not match",
		"?ca=" + own.file + "&ca=" + own.file:   "ca twice",
		"?insecure=true":                        `unknown setting "insecure"`,
		"?ca=" + own.file + "&servername=redis": "",
	} {
		if err := redis.CheckURL("rediss://u:hunter2@h" + query); (err == nil) != (want == "") || err != nil &&
			(!strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2")) {
			t.Errorf("%s: %v, want %q", query, err, want)
		}
	}
	for url, want := range map[string]string{
		"redis://h?ca=" + own.file:                       "need rediss:// or ?tls=true",
		"redis-cluster://h?ca=" + own.file:               "need rediss:// or ?tls=true",
		"redis-cluster://h?tls=yes":                      "tls must be true or false",
		"redis-sentinel://h/m?tls=false&servername=s":    "need rediss:// or ?tls=true",
		"unix:///s?ca=" + own.file:                       "unknown setting",
		"redis-cluster://h?tls=true&ca=" + own.file:      "",
		"redis-sentinel://h/m?tls=true&servername=redis": "",
	} {
		if err := redis.CheckURL(url); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", url, err, want)
		}
	}
	dial := func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("must not be called") }
	for _, c := range []struct {
		cfg  redis.Config
		want string
	}{
		{redis.Config{URL: "redis://h", TLS: new(tls.Config)}, "needs rediss:// or ?tls=true in the URL"},
		{redis.Config{URL: "redis-cluster://h?tls=false", TLS: new(tls.Config)}, "needs rediss:// or ?tls=true in the URL"},
		{redis.Config{URL: "rediss://h?ca=" + own.file, TLS: new(tls.Config)}, "not both"},
		{redis.Config{URL: "rediss://h", TLS: new(tls.Config), Dial: dial}, "Config.Dial"},
		{redis.Config{URL: "rediss://h?ca=" + own.file, Dial: dial}, "Config.Dial"},
	} {
		if db, err := redis.Open(t.Context(), c.cfg); err == nil {
			db.Close()
			t.Errorf("Open(%s) succeeded, want %q", c.cfg.URL, c.want)
		} else if !strings.Contains(err.Error(), c.want) {
			t.Errorf("Open(%s): %v, want %q", c.cfg.URL, err, c.want)
		}
		if _, err := redis.Probe(t.Context(), c.cfg); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("Probe(%s): %v, want %q", c.cfg.URL, err, c.want)
		}
	}
	redistest.OpenConfig(t, redis.Config{URL: "embedded", TLS: new(tls.Config)})
}
