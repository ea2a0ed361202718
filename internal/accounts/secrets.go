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

// The kinds of token, in front so that a leaked one can be found by a scanner
// and one kind cannot be sent for the other.
const (
	accessPrefix  = "sa_"
	refreshPrefix = "sr_"
	undoPrefix    = "su_"
)

const (
	secretLen = 43 // 32 bytes in base64url
	tokenLen  = len(accessPrefix) + ids.Len + 1 + ids.Len + 1 + secretLen
)

// token is a bearer token taken apart. Its secret is compared by its hash only.
type token struct {
	user   ID
	device DeviceID
	text   string
}

// parseToken reports false for anything that this package cannot have issued.
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

// hash is what is stored of a token.
func hash(token string) string {
	sum := sha256.Sum256([]byte(token))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

func sameHash(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// A mint makes secrets that only the holder of the server's secret can make.
type mint []byte

// mac is HMAC-SHA256 over a label and parts, each led by its length, so that no
// two lists of parts are the same bytes.
func (m mint) mac(label string, parts ...string) []byte {
	h := hmac.New(sha256.New, m)
	for _, p := range append([]string{label}, parts...) {
		h.Write(binary.BigEndian.AppendUint32(nil, uint32(len(p))))
		h.Write([]byte(p))
	}
	return h.Sum(nil)
}

// pair derives a device's next tokens from the seed, which is the presented refresh
// token (at log-in: fresh random bytes), and the nonce kept in the session.
// Without the server's secret neither follows from the other.
func (m mint) pair(user ID, device DeviceID, seed, nonce string) (access, refresh string) {
	who := user.String() + "." + device.String()
	return accessPrefix + who + "." + m.vouched("issued access", who, m.mac("access", who, seed, nonce)[:16]),
		refreshPrefix + who + "." + m.vouched("issued", who, m.mac("refresh", who, seed, nonce)[:16])
}

// vouched is a secret of which half vouches for the other half, so that a token of
// long ago is known for what it is, see [mint.issued].
func (m mint) vouched(label, who string, half []byte) string {
	return base64.RawURLEncoding.EncodeToString(append(half[:16:16], m.mac(label, who, string(half))[:16]...))
}

// issued reports whether this server made the refresh token at some time. It
// tells a replayed token from a guess: only the former ends a session.
func (m mint) issued(t token) bool { return m.vouches("issued", t) }

// issuedAccess is issued for an access token. It does not know those of versions without it, nor those that were made with
// another secret of the server, whose sessions last all the same.
func (m mint) issuedAccess(t token) bool { return m.vouches("issued access", t) }

// issued reports whether a server with the secret, or with the previous one, made the refresh token.
func (s *Service) issued(t token) bool {
	return s.mint.issued(t) || s.previous != nil && s.previous.issued(t)
}

// issuedAccess is issued for an access token.
func (s *Service) issuedAccess(t token) bool {
	return s.mint.issuedAccess(t) || s.previous != nil && s.previous.issuedAccess(t)
}

func (m mint) vouches(label string, t token) bool {
	secret, err := base64.RawURLEncoding.DecodeString(t.text[tokenLen-secretLen:])
	who := t.user.String() + "." + t.device.String()
	return err == nil && len(secret) == 32 && hmac.Equal(secret[16:], m.mac(label, who, string(secret[:16]))[:16])
}

// undoToken is the token of a link that takes a change of address back.
func (m mint) undoToken(user ID, seed string) string {
	return undoPrefix + base64.RawURLEncoding.EncodeToString(m.mac("undo", user.String(), seed))
}

// cardToken is the token on the card of that name. SQL and Redis hold the name, and
// nobody makes the token of it without the server's secret. One block of AES is a
// permutation of 128 bits, so that a token leads back to its name.
func (m mint) cardToken(name string) string { return m.permute(name, cipher.Block.Encrypt) }

// cardName is the name of the card with that token, which [isNonce] takes.
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

// newNonce draws 128 bits.
func newNonce() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails: see crypto/rand
	return base64.RawURLEncoding.EncodeToString(b[:])
}
