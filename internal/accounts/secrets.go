package accounts

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"

	"github.com/stoa-dev/stoa/internal/base/ids"
)

// The prefixes of the token kinds. They allow scanners to find a leaked token, and prevent the use of one kind as
// another.
const (
	accessPrefix  = "sa_"
	refreshPrefix = "sr_"
	undoPrefix    = "su_"
)

const (
	secretLen = 43 // 32 bytes in base64url
	tokenLen  = len(accessPrefix) + ids.Len + 1 + ids.Len + 1 + secretLen
)

// token is a parsed bearer token. Its secret is compared only by hash.
type token struct {
	user   ID
	device DeviceID
	text   string
}

// parseToken returns false for text that this package cannot have issued.
func parseToken(prefix, s string) (token, bool) {
	if len(s) != tokenLen || s[:len(prefix)] != prefix || s[15] != '.' || s[28] != '.' {
		return token{}, false
	}
	user, err := ids.Parse[User](s[3:15])
	if err != nil {
		return token{}, false
	}
	device, err := ids.Parse[Session](s[16:28])
	if err != nil {
		return token{}, false
	}
	return token{user, device, s}, true
}

// hash returns the stored form of a token.
func hash(token string) string {
	sum := sha256.Sum256([]byte(token))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

func sameHash(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// A mint creates secrets that only a holder of the server's secret can create.
type mint []byte

// mac is HMAC-SHA256 over a label and parts. Each part is prefixed with its length, so that two lists of parts never
// have the same bytes.
func (m mint) mac(label string, parts ...string) []byte {
	h := hmac.New(sha256.New, m)
	for _, p := range append([]string{label}, parts...) {
		h.Write(binary.BigEndian.AppendUint32(nil, uint32(len(p))))
		h.Write([]byte(p))
	}
	return h.Sum(nil)
}

// pair derives the next tokens of a device from the seed and the nonce of the session. The seed is the presented
// refresh token, or random bytes at log-in. Without the server's secret neither token can be computed from the other.
func (m mint) pair(user ID, device DeviceID, seed, nonce string) (access, refresh string) {
	subject := user.String() + "." + device.String()
	return accessPrefix + subject + "." + m.vouched("issued access", subject, m.mac("access", subject, seed, nonce)[:16]),
		refreshPrefix + subject + "." + m.vouched("issued", subject, m.mac("refresh", subject, seed, nonce)[:16])
}

// vouched returns a secret whose second half authenticates the first half, so that an old token can still be
// recognized, see [mint.issued].
func (m mint) vouched(label, subject string, half []byte) string {
	return base64.RawURLEncoding.EncodeToString(append(half[:16:16], m.mac(label, subject, string(half))[:16]...))
}

// issued reports whether this server ever issued the refresh token. It distinguishes a replayed token from a guess:
// only a replayed one ends a session.
func (m mint) issued(t token) bool { return m.vouches("issued", t) }

// issuedAccess is issued for an access token. It returns false for tokens of older versions, and of another secret of
// the server, although their sessions are still valid.
func (m mint) issuedAccess(t token) bool { return m.vouches("issued access", t) }

// issued reports whether a server with the current or the previous secret issued the refresh token.
func (s *Service) issued(t token) bool {
	return s.mint.issued(t) || s.previous != nil && s.previous.issued(t)
}

// issuedAccess is issued for an access token.
func (s *Service) issuedAccess(t token) bool {
	return s.mint.issuedAccess(t) || s.previous != nil && s.previous.issuedAccess(t)
}

func (m mint) vouches(label string, t token) bool {
	secret, err := base64.RawURLEncoding.DecodeString(t.text[tokenLen-secretLen:])
	subject := t.user.String() + "." + t.device.String()
	return err == nil && len(secret) == 32 && hmac.Equal(secret[16:], m.mac(label, subject, string(secret[:16]))[:16])
}

// undoToken returns the token of a link that undoes a change of address.
func (m mint) undoToken(user ID, seed string) string {
	return undoPrefix + base64.RawURLEncoding.EncodeToString(m.mac("undo", user.String(), seed))
}

// cardToken returns the token for the name of a card. SQL and Redis store the name, and only the server's secret turns
// it into the token. One block of AES is a permutation of 128 bits, so that cardName can invert it.
func (m mint) cardToken(name string) string { return m.permute(name, cipher.Block.Encrypt) }

// cardName returns the name of the card for a token that [isNonce] accepts.
func (m mint) cardName(token string) string { return m.permute(token, cipher.Block.Decrypt) }

func (m mint) permute(s string, by func(b cipher.Block, dst, src []byte)) string {
	bits, err := base64.RawURLEncoding.Strict().DecodeString(s)
	block, fault := aes.NewCipher(m.mac("card")[:16])
	if err != nil || fault != nil || len(bits) != aes.BlockSize {
		return ""
	}
	by(block, bits, bits)
	return base64.RawURLEncoding.EncodeToString(bits)
}

// newNonce returns 128 random bits.
func newNonce() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails: see crypto/rand
	return base64.RawURLEncoding.EncodeToString(b[:])
}
