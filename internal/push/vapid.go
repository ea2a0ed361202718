package push

import (
	"crypto/ecdh"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
)

// keys are the deployment's, with which pushes are signed (RFC 8292), in base64url.
type keys struct{ private, public string }

// keysOf makes the keys of a seed. Without the server's secret nothing follows from it; all nodes have the same.
func keysOf(secret []byte, seed string) keys {
	for n := byte(0); ; n++ { // one in four thousand million is no key
		h := hmac.New(sha256.New, secret)
		h.Write([]byte("push vapid " + seed))
		h.Write([]byte{n})
		key, err := ecdh.P256().NewPrivateKey(h.Sum(nil))
		if err != nil {
			continue
		}
		return keys{base64.RawURLEncoding.EncodeToString(key.Bytes()), base64.RawURLEncoding.EncodeToString(key.PublicKey().Bytes())}
	}
}

func newSeed() string { return rand.Text() }
