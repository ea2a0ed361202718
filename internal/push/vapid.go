package push

import (
	"crypto/aes"
	"crypto/cipher"
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
		return keysFrom(key)
	}
}

// seal encrypts the keys for SQL.
func (k keys) seal(secret []byte) string {
	private, err := base64.RawURLEncoding.DecodeString(k.private)
	if err != nil {
		panic(err) // keysOf and unseal encode it
	}
	return base64.RawURLEncoding.EncodeToString(sealing(secret).Seal(nil, nil, private, nil))
}

// unseal decrypts what seal returned. It reports false for another secret's.
func unseal(secret []byte, text string) (keys, bool) {
	sealed, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return keys{}, false
	}
	private, err := sealing(secret).Open(nil, nil, sealed, nil)
	if err != nil {
		return keys{}, false
	}
	key, err := ecdh.P256().NewPrivateKey(private)
	if err != nil {
		return keys{}, false
	}
	return keysFrom(key), true
}

func keysFrom(key *ecdh.PrivateKey) keys {
	return keys{base64.RawURLEncoding.EncodeToString(key.Bytes()), base64.RawURLEncoding.EncodeToString(key.PublicKey().Bytes())}
}

// sealing is AES-GCM under a key of the secret, with a random nonce in what it seals.
func sealing(secret []byte) cipher.AEAD {
	h := hmac.New(sha256.New, secret)
	h.Write([]byte("push key"))
	block, err := aes.NewCipher(h.Sum(nil))
	if err != nil {
		panic(err) // the key has 32 bytes
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err) // AES has blocks of 16 bytes
	}
	return aead
}

func newSeed() string { return rand.Text() }
