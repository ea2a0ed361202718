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

// keys are the deployment's signing keys (RFC 8292), in base64url.
type keys struct{ private, public string }

// keysOf derives the keys from a seed. All nodes derive the same keys, and the seed is useless without the secret.
func keysOf(secret []byte, seed string) keys {
	for n := byte(0); ; n++ { // one of 4,000 million values is no valid key
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

// unseal decrypts the result of seal. It returns false if another secret encrypted it.
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

// sealing returns AES-GCM with a key derived from the secret and a random nonce in the ciphertext.
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
