package redis_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
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
	"sync"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/lib/redis"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/redis/redistest/conformance"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

// authority makes a CA and a certificate of it for 127.0.0.1, not for localhost, by file name. It runs once, because a
// process reads the system's authorities once.
var authority = sync.OnceValues(func() (files map[string][]byte, err error) {
	keys := make([]*ecdsa.PrivateKey, 2)
	for i := range keys {
		if keys[i], err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
			return nil, err
		}
	}
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "redis"}, NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	caDER, err1 := x509.CreateCertificate(rand.Reader, ca, ca, &keys[0].PublicKey, keys[0])
	leafDER, err2 := x509.CreateCertificate(rand.Reader, leaf, ca, &keys[1].PublicKey, keys[0])
	keyDER, err3 := x509.MarshalECPrivateKey(keys[1])
	return map[string][]byte{
		"ca.crt":    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: caDER}),
		"redis.crt": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: leafDER}),
		"redis.key": pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER}),
	}, errors.Join(err1, err2, err3)
})

// encrypted returns a TLS port, and the settings that make a server or a sentinel listen on it. This process trusts
// it from then on.
func encrypted(t *testing.T) (port string, settings []string) {
	t.Helper()
	files, err := authority()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("SSL_CERT_FILE", filepath.Join(dir, "ca.crt"))
	port = fmt.Sprint(redistest.FreePort(t))
	return port, []string{
		"tls-port " + port, "tls-cert-file " + filepath.Join(dir, "redis.crt"), "tls-key-file " + filepath.Join(dir, "redis.key"),
		"tls-ca-cert-file " + filepath.Join(dir, "ca.crt"), "tls-auth-clients no", "tls-replication yes",
	}
}

const (
	noDefault = "user default off"
	app       = "user app on >p@ss:w/rd ~* &* +@all"
)

// asApp contains the credentials of app for a URL.
const asApp = "app:p%40ss%3Aw%2Frd@"

// works sends a command, a pipeline and a script, and receives a message.
func works(t *testing.T, url string) {
	t.Helper()
	worksWith(t, redis.Config{URL: url})
}

// worksWith is works with all settings, and the Patience of tests.
func worksWith(t *testing.T, cfg redis.Config) {
	t.Helper()
	cfg.Patience = 20 * time.Second
	db := redistest.OpenConfig(t, cfg)
	conformance.Brief(t, db)
	servers, err := db.Info(t.Context())
	if err != nil || len(servers) != 1 || servers[0].Fields["redis_version"] == "" {
		t.Errorf("Info: %v, %v", servers, err)
	}
}

func TestTLS_UserAndPassword(t *testing.T) {
	port, settings := encrypted(t)
	plain := redistest.Server(t, append(settings, noDefault, app)...)

	t.Run("TLS", func(t *testing.T) { works(t, "rediss://"+asApp+"127.0.0.1:"+port) })
	t.Run("a password alone", func(t *testing.T) { redistest.Open(t, strings.Replace(plain.URL, "redis://", "redis://"+asApp, 1)) })
	for name, c := range map[string]struct{ url, want string }{
		"a wrong password":                      {"rediss://app:wrong@127.0.0.1:" + port, "WRONGPASS"},
		"no password":                           {"rediss://127.0.0.1:" + port, "NOAUTH"},
		"a name that is not in the certificate": {"rediss://" + asApp + "localhost:" + port, "certificate"},
		"TLS where there is none":               {"rediss://" + asApp + plain.Addr, ""},
		"no TLS where there is":                 {"redis://" + asApp + "127.0.0.1:" + port, ""},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			db, err := redis.Open(ctx, redis.Config{URL: c.url, Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
			if err != nil {
				t.Fatalf("Open: %v, want it to keep connecting", err)
			}
			defer db.Close()
			_, _, err = value.At(n(1)).Get(ctx, db)
			if !errors.Is(err, redis.ErrUnavailable) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want ErrUnavailable with %q in it", err, c.want)
			}
			if err != nil && strings.Contains(err.Error(), "p@ss") {
				t.Errorf("the error shows the password: %v", err)
			}
		})
	}
}

func TestTLS_Sentinel(t *testing.T) {
	port, settings := encrypted(t)
	redistest.Server(t, append(settings, noDefault, app)...)
	sentinelPort, settings := encrypted(t)
	conf := filepath.Join(t.TempDir(), "sentinel.conf")
	text := strings.Join(append(settings, "requirepass watch", "sentinel monitor stoa 127.0.0.1 "+port+" 1",
		"sentinel auth-user stoa app", "sentinel auth-pass stoa p@ss:w/rd", ""), "\n")
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	redistest.Conf(t, conf, "--sentinel")
	works(t, "redis-sentinel://"+asApp+"127.0.0.1:"+sentinelPort+"/stoa?tls=true&sentinel_password=watch")
}

func TestTLS_Cluster(t *testing.T) {
	port, settings := encrypted(t)
	server := redistest.Server(t, append(settings, app, "tls-cluster yes", "cluster-enabled yes",
		"cluster-announce-ip 127.0.0.1", fmt.Sprint("cluster-port ", redistest.FreePort(t)))...)
	if _, err := server.Do("CLUSTER", "ADDSLOTSRANGE", "0", "16383"); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "the cluster is complete", func() bool {
		info, err := server.Do("CLUSTER", "INFO")
		return err == nil && strings.Contains(info[0], "cluster_state:ok")
	})
	if _, err := server.Do("ACL", "SETUSER", "default", "off"); err != nil {
		t.Fatal(err)
	}
	works(t, "redis-cluster://"+asApp+"127.0.0.1:"+port+"?tls=true")
}
